//! The bends of the curves, in sentences that are computed from the results.
//!
//! What must never enter: a number that is not computed.

use bench::statistics::Results;
use bench::trial::Point;

use super::series::{
    BURST, CONTEND, CONTENTIONS, LAID_OUT, LAY_OUT, MAKE, SINGLE, UNPACK, WAIT, WRITE,
};
use super::work;

/// A curve counts as straight, or flat, as long as it stays within this of the expected value.
const TOLERANCE: f64 = 0.1;

/// Means over the number of replicas, the fewest first.
#[derive(Debug, Clone, PartialEq)]
struct Curve(Vec<(f64, f64)>);

impl Curve {
    fn of(results: &Results, panel: &str, series: &str, figure: &str) -> Self {
        let places = results.places(panel);
        let dot = |x: &&str| {
            let found = results.summary(&Point::new(panel, series, x), figure)?;
            Some((x.parse().ok()?, found.mean))
        };
        Self(places.iter().filter_map(dot).collect())
    }

    /// For each of the other replicas.
    fn per_other(&self) -> Self {
        let each = self.0.iter().map(|&(n, value)| (n, value / (n - 1.0)));
        Self(each.collect())
    }

    fn first(&self) -> Option<(f64, f64)> {
        self.0.first().copied()
    }

    fn last(&self) -> Option<(f64, f64)> {
        self.0.last().copied()
    }

    /// The largest value over the smallest.
    fn spread(&self) -> f64 {
        let values = self.0.iter().map(|(_, value)| *value);
        let low = values.clone().fold(f64::INFINITY, f64::min);
        values.fold(0.0, f64::max) / low
    }

    /// The largest ratio to another curve at the same place.
    fn most_beyond(&self, other: &Self) -> f64 {
        let pairs = self.0.iter().zip(&other.0);
        let ratios = pairs.map(|((_, value), (_, bound))| value / bound);
        ratios.fold(0.0, f64::max)
    }

    /// The place from which on it keeps its last value.
    fn flat_from(&self) -> Option<f64> {
        let (_, end) = self.last()?;
        let differs = |&(_, value): &(f64, f64)| (value / end - 1.0).abs() > TOLERANCE;
        let flat = self.0.iter().rposition(differs).map_or(0, |last| last + 1);
        self.0.get(flat).map(|(n, _)| *n)
    }
}

/// All sentences about these results.
pub(super) fn sentences(results: &Results) -> String {
    let all = [
        messages(results),
        bytes(results),
        waiting(results),
        primary(results),
        contention(results),
        asking_again(results),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    format!("Where it bends, and why:\n\n- {}", all.join("\n- "))
}

/// Whether the number of messages grows only in proportion to the number of other replicas.
fn messages(results: &Results) -> Option<String> {
    let curve = |panel, series| Curve::of(results, panel, series, "messages_per_update");
    let (single, burst) = (curve(SINGLE, MAKE), curve(BURST, UNPACK));
    let ((few, at_few), (many, at_many)) = (single.first()?, single.last()?);
    let (_, in_burst) = burst.per_other().last()?;
    let spread = single.per_other().spread().max(burst.per_other().spread());
    let verdict = if spread < 1.0 + TOLERANCE {
        "They do not bend: every one of the others is asked, answers, is told of the end and confirms it, and none tells another, so a \
         majority would do for the answer but not for the messages"
    } else {
        "They bend: a replica more costs more messages in larger sets than in small ones, or fewer"
    };
    Some(format!(
        "*Messages.* A single update takes {at_few:.0} messages in a set of {few} and {at_many:.0} in one of {many}, an update of a \
         burst {in_burst:.2} for each of the other replicas. {verdict} (between sets of any size the messages for each of the others \
         differ by a factor of {spread:.2} at most)."
    ))
}

/// Whether messages grow longer.
fn bytes(results: &Results) -> Option<String> {
    let each = |series, panel| {
        let bytes = Curve::of(results, panel, series, "bytes_per_update");
        let messages = Curve::of(results, panel, series, "messages_per_update");
        let pairs = bytes.0.iter().zip(&messages.0);
        Curve(pairs.map(|((n, b), (_, m))| (*n, b / m)).collect())
    };
    let (single, burst) = (each(MAKE, SINGLE), each(UNPACK, BURST));
    let ((few, at_few), (many, at_many)) = (single.first()?, single.last()?);
    let (_, in_burst) = burst.last()?;
    Some(format!(
        "*Bytes.* A message has {at_few:.0} bytes in a set of {few} and {at_many:.0} in one of {many} ({in_burst:.0} in a burst): no \
         message lists the replicas, so bytes follow the messages."
    ))
}

/// How answers become later.
fn waiting(results: &Results) -> Option<String> {
    let curve = |series, figure| Curve::of(results, SINGLE, series, figure);
    let (make, write) = (
        curve(MAKE, "first_update_s"),
        curve(WRITE, "first_update_s"),
    );
    let ((few, make_few), (many, make_many)) = (make.first()?, make.last()?);
    let ((_, write_few), (_, write_many)) = (write.first()?, write.last()?);
    let (make_flat, write_flat) = (make.flat_from()?, write.flat_from()?);
    let beyond = [
        make.most_beyond(&curve(MAKE, "majority_s")),
        write.most_beyond(&curve(WRITE, "everybody_s")),
    ];
    let [beyond_majority, beyond_everybody] = beyond.map(|ratio| (ratio - 1.0) * 100.0);
    let percent = TOLERANCE * 100.0;
    Some(format!(
        "*Waiting.* Making a file takes {:.0} ms with {few} replicas and {:.0} ms with {many}, and stays within {percent:.0} % of that \
         from {make_flat} replicas on: it waits for a majority (at most {beyond_majority:.0} % longer than that round trip, in sets of \
         any size), and the nearer half of a large set is no farther away than that of a small one. Of three replicas one other is a \
         majority, of four it takes two. Closing a written file takes {:.0} ms and {:.0} ms, within {percent:.0} % from {write_flat} \
         replicas on: it waits for everybody (at most {beyond_everybody:.0} % longer than the round trip to the farthest), and the more \
         there are, the nearer one of them is to the other side of the earth, which is as far as it goes.",
        make_few * 1e3,
        make_many * 1e3,
        write_few * 1e3,
        write_many * 1e3,
    ))
}

/// The traffic of a primary.
fn primary(results: &Results) -> Option<String> {
    let of = |figure| Curve::of(results, BURST, UNPACK, figure).last();
    let (many, messages) = of("primary_messages_per_update")?;
    let (_, bytes) = of("primary_bytes_per_update")?;
    let mean = Curve::of(results, BURST, UNPACK, "mean_update_s");
    let ((few, mean_few), (_, mean_many)) = (mean.first()?, mean.last()?);
    let files_per_s = 1.0 / work::FILE_EVERY.as_secs_f64();
    let files = 1.0 / work::FILES_A_DIRECTORY as f64 + 2.0;
    let megabits = bytes * files * files_per_s * 8.0 / 1e6;
    Some(format!(
        "*The primary.* In a burst an update takes {:.1} ms in the mean with {few} replicas and {:.1} ms with {many}, since only the \
         first ones wait. But with {many} replicas the primary sends {messages:.0} messages for each update, among them {bytes:.0} bytes \
         of replication control: {megabits:.1} Mbit/s at {files_per_s:.0} files a second, before any contents, which it has to send \
         {:.0} times. That is the papers' barrier, and it is a straight line too.",
        mean_few * 1e3,
        mean_many * 1e3,
        many - 1.0,
    ))
}

/// The mutual cost of two sites that share a directory.
fn contention(results: &Results) -> Option<String> {
    let mut parts = Vec::new();
    for (series, _) in CONTENTIONS {
        let ends = |figure| {
            let curve = Curve::of(results, CONTEND, series, figure);
            Some((curve.first()?, curve.last()?))
        };
        let ((few, proposals_few), (many, proposals_many)) = ends("proposals_per_update")?;
        let ((_, messages_few), (_, messages_many)) = ends("messages_per_other")?;
        let ((_, time_few), (_, time_many)) = ends("common_s")?;
        parts.push(format!(
            "with `{series}` an update takes {proposals_few:.3} proposals in a set of {few} and {proposals_many:.3} in one of {many}, \
             {messages_few:.2} and {messages_many:.2} messages for each of the other replicas, and in the common directory {:.0} ms and \
             {:.0} ms",
            time_few * 1e3,
            time_many * 1e3,
        ));
    }
    Some(format!(
        "*Contention.* In the mean, {}. To forward takes the way to the other site, however many there are; to wait takes until \
         everybody, the farthest included, has applied what the other one did and acknowledged its control.",
        parts.join("; ")
    ))
}

/// Why waiting replicas ask more often in larger sets.
fn asking_again(results: &Results) -> Option<String> {
    let again = |panel, series| Curve::of(results, panel, series, "again_per_update");
    let [(even, ..), (apart, ..)] = LAID_OUT;
    let ((few, at_few), (many, at_many)) = {
        let cities = again(CONTEND, WAIT);
        (cities.first()?, cities.last()?)
    };
    let (_, even) = again(LAY_OUT, even).last()?;
    let (_, apart) = again(LAY_OUT, apart).last()?;
    let verdict = if apart > 2.0 * even {
        "So it is not their number but their unequal distances: a proposal is made again when some have granted it and most have not, \
         and that happens while the news of the other site, its proposal or the end of its control, has reached some replicas and not \
         yet the rest. The more replicas are nearer to both sites than these are to each other, the more often it does"
    } else {
        "So the distance between the two is not what makes them ask again"
    };
    let own = Curve::of(results, CONTEND, WAIT, "own_proposals_a_site");
    let longest = Curve::of(results, CONTEND, WAIT, "longest_s");
    let ((_, own_few), (_, own_many)) = (own.first()?, own.last()?);
    let (_, longest) = longest.last()?;
    Some(format!(
        "*Asking again.* Of the proposals with `wait`, {at_few:.3} for each update are made again in a set of {few} and {at_many:.3} in \
         one of {many}. With {many} replicas at equal distances it is {even:.3}, and with those two twice as far from each other as from \
         all others {apart:.3}. {verdict}. Who waits long lets the control of its own directory lapse, too, which an idle second ends: \
         each site asked {own_few:.1} times for its own in a set of {few} and {own_many:.1} times in one of {many}, where the longest \
         wait was {longest:.1} s in the mean of the runs."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_flat_from_where_it_stays() {
        let curve = Curve(vec![
            (2.0, 50.0),
            (4.0, 95.0),
            (8.0, 80.0),
            (16.0, 98.0),
            (32.0, 100.0),
        ]);
        assert_eq!(curve.flat_from(), Some(16.0));
        assert_eq!(Curve(vec![(2.0, 1.0), (4.0, 1.0)]).flat_from(), Some(2.0));
        assert_eq!(Curve(Vec::new()).flat_from(), None);
    }

    #[test]
    fn a_straight_line_has_the_same_for_each_of_the_others() {
        let curve = Curve(vec![(2.0, 4.0), (4.0, 12.0), (64.0, 252.0)]);
        assert_eq!(curve.per_other().spread(), 1.0);
        assert!(Curve(vec![(2.0, 4.0), (4.0, 36.0)]).per_other().spread() > 2.0);
        let bound = Curve(vec![(2.0, 4.0), (4.0, 10.0), (64.0, 252.0)]);
        assert_eq!(curve.most_beyond(&bound), 1.2);
    }
}
