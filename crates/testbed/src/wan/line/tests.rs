//! The model of a line, with a clock that the test sets.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// The shape of a plain packet of 1000 bytes.
fn packet() -> Shape {
    let mut frame = vec![0; 10 + 1000];
    frame[10] = 0x45;
    frame[12..14].copy_from_slice(&1000u16.to_be_bytes());
    Shape::of(&frame).expect("it is an IPv4 packet")
}

/// The shape of a TCP super-frame of ten segments, each 1000 bytes on the wire.
fn ten_packets() -> Shape {
    let mut frame = vec![0; 10 + 40 + 10 * 960];
    frame[1] = 1;
    frame[4..6].copy_from_slice(&960u16.to_ne_bytes());
    frame[10] = 0x45;
    frame[12..14].copy_from_slice(&9640u16.to_be_bytes());
    frame[10 + 32] = 0x50;
    Shape::of(&frame).expect("it is a super-frame")
}

/// Gives a frame to the line, and returns the number of its surviving packets and when they are due.
fn send(line: &mut Line<u32>, now: Instant, shape: &Shape) -> (usize, Instant) {
    let mut runs = Vec::new();
    let due = line.admit(now, shape, &mut runs);
    for run in &runs {
        line.carry(run.start, run.len() as u64, shape.wire_bytes(run), due);
    }
    (runs.iter().map(|run| run.len()).sum(), due)
}

fn line(settings: LinkSettings) -> (Line<u32>, Instant) {
    let now = Instant::now();
    (Line::new(settings, 1, now), now)
}

#[test]
fn a_frame_arrives_after_the_delay_and_not_before() {
    let (mut line, now) = line(LinkSettings::delay(60 * MS));
    send(&mut line, now, &packet());
    assert_eq!(line.next_due(), Some(now + 60 * MS));
    assert_eq!(line.arrive(now + 59 * MS), None);
    assert_eq!(line.arrive(now + 60 * MS), Some(0));
    assert_eq!(line.arrive(now + 600 * MS), None);
    let traffic = line.traffic();
    assert_eq!((traffic.packets, traffic.bytes), (1, 1000));
    assert_eq!(line.lateness().max, Duration::ZERO);
}

#[test]
fn frames_that_are_handed_over_late_are_told() {
    let (mut line, now) = line(LinkSettings::delay(10 * MS));
    send(&mut line, now, &packet());
    send(&mut line, now, &packet());
    assert_eq!(line.arrive(now + 11 * MS), Some(0));
    assert_eq!(line.arrive(now + 13 * MS), Some(0));
    let lateness = line.lateness();
    assert_eq!(
        (lateness.frames, lateness.mean(), lateness.max),
        (2, 2 * MS, 3 * MS)
    );
}

#[test]
fn a_shorter_delay_lets_nothing_overtake() {
    let (mut line, now) = line(LinkSettings::delay(60 * MS));
    send(&mut line, now, &packet());
    line.set(LinkSettings::delay(MS));
    let (_, due) = send(&mut line, now + MS, &packet());
    assert_eq!(due, now + 60 * MS);
    let (_, due) = send(&mut line, now + 100 * MS, &packet());
    assert_eq!(due, now + 101 * MS);
}

#[test]
fn jitter_adds_up_to_its_bound_and_keeps_the_order() {
    let (mut line, now) = line(LinkSettings::delay(10 * MS).jitter(5 * MS));
    let mut before = now;
    for step in 0..1000 {
        let now = now + step * MS;
        let (_, due) = send(&mut line, now, &packet());
        assert!(due >= now + 10 * MS && due <= now + 15 * MS && due >= before);
        before = due;
    }
}

#[test]
fn the_wire_sends_one_packet_after_another() {
    // 8 Mbit/s are 1000 bytes a millisecond.
    let (mut line, now) = line(LinkSettings::delay(10 * MS).bandwidth(8_000_000));
    assert_eq!(send(&mut line, now, &packet()).1, now + 11 * MS);
    assert_eq!(send(&mut line, now, &ten_packets()).1, now + 21 * MS);
    assert_eq!(send(&mut line, now + 100 * MS, &packet()).1, now + 111 * MS);
}

#[test]
fn a_full_queue_drops_the_tail() {
    let settings = LinkSettings::default().bandwidth(8_000_000).queue(5_500);
    let (mut line, now) = line(settings);
    assert_eq!(send(&mut line, now, &ten_packets()).0, 5);
    assert_eq!(send(&mut line, now, &packet()).0, 0);
    assert_eq!(send(&mut line, now + MS, &packet()).0, 1);
    let traffic = line.traffic();
    assert_eq!((traffic.dropped_packets, traffic.dropped_bytes), (6, 6000));
}

#[test]
fn an_idle_wire_takes_a_packet_larger_than_its_queue() {
    let settings = LinkSettings::default().bandwidth(8_000_000).queue(100);
    let (mut line, now) = line(settings);
    assert_eq!(send(&mut line, now, &packet()).0, 1);
    assert_eq!(send(&mut line, now, &packet()).0, 0);
}

#[test]
fn single_packets_of_super_frames_are_lost_at_the_rate_asked_for() {
    let (mut line, now) = line(LinkSettings::default().loss(0.01));
    let mut whole_frames = 0;
    for _ in 0..10_000 {
        whole_frames += u32::from(send(&mut line, now, &ten_packets()).0 == 10);
    }
    let lost = line.traffic().dropped_packets;
    assert!((900..1100).contains(&lost), "{lost} of 100000");
    assert!((8900..9200).contains(&whole_frames), "{whole_frames}");
}

#[test]
fn all_or_nothing_may_be_lost() {
    let (mut line, now) = line(LinkSettings::default().loss(1.0));
    assert_eq!(send(&mut line, now, &ten_packets()).0, 0);
    line.set(LinkSettings::default());
    assert_eq!(send(&mut line, now, &ten_packets()).0, 10);
}

#[test]
fn a_cut_loses_what_is_in_flight_and_all_that_comes_after() {
    let (mut line, now) = line(LinkSettings::delay(60 * MS));
    send(&mut line, now, &packet());
    line.set_cut(true, now + MS);
    assert_eq!(send(&mut line, now + MS, &ten_packets()).0, 0);
    assert_eq!(line.arrive(now + 100 * MS), None);
    assert_eq!(line.traffic().dropped_packets, 11);
    line.set_cut(false, now + 2 * MS);
    assert_eq!(send(&mut line, now + 2 * MS, &packet()).1, now + 62 * MS);
}
