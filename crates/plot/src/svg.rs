//! Writes SVG: elements with their attributes in pixels, and texts.
//!
//! What must never enter: the meaning of a picture.

use std::fmt::Write;

/// A picture under construction.
#[derive(Debug)]
pub(super) struct Svg(String);

impl Svg {
    /// An empty, white picture of this size, with a title for screen readers.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        let title = escaped(title);
        Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\" \
             font-size=\"12\">\n<title>{title}</title>\n\
             <rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>\n"
        ))
    }

    /// The whole file.
    pub(super) fn finish(self) -> String {
        self.0 + "</svg>\n"
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{element}");
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {style}/>"
        ));
    }

    /// A line through points.
    pub(super) fn path(&mut self, places: &[(f64, f64)], style: &str) {
        let places = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let places = places.collect::<Vec<_>>().join(" ");
        self.add(format_args!(
            "<polyline points=\"{places}\" fill=\"none\" {style}/>"
        ));
    }

    /// A closed shape.
    pub(super) fn shape(&mut self, places: &[(f64, f64)], style: &str) {
        let places = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
        let places = places.collect::<Vec<_>>().join(" ");
        self.add(format_args!("<polygon points=\"{places}\" {style}/>"));
    }

    /// A circle.
    pub(super) fn circle(&mut self, (x, y): (f64, f64), radius: f64, style: &str) {
        self.add(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" {style}/>"
        ));
    }

    /// A rectangle.
    pub(super) fn rectangle(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        style: &str,
    ) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" {style}/>"
        ));
    }

    /// A text with its start, middle or end at the position.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"#333333\">{text}</text>"
        ));
    }

    /// A heading.
    pub(super) fn bold(&mut self, x: f64, y: f64, size: f64, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" font-weight=\"bold\" fill=\"#111111\">{text}</text>"
        ));
    }

    /// A small text, in a colour.
    pub(super) fn small(&mut self, x: f64, y: f64, colour: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"8\" fill=\"{colour}\">{text}</text>"
        ));
    }

    /// Elements drawn together under a name, which a browser shows beneath the pointer.
    pub(super) fn named(&mut self, name: &str, draw: impl FnOnce(&mut Self)) {
        let name = escaped(name);
        self.add(format_args!("<g><title>{name}</title>"));
        draw(self);
        self.add(format_args!("</g>"));
    }

    /// A text that is turned to read upwards.
    pub(super) fn upright(&mut self, x: f64, y: f64, text: &str) {
        let text = escaped(text);
        self.add(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\" fill=\"#333333\">{text}</text>"
        ));
    }
}

/// The approximate width of a text of normal size, in pixels.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.4
}

/// Text with all markup characters escaped.
pub fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Fails a test unless every element is closed by its own end, attributes are quoted, no attribute is NaN,
/// and all special characters are escaped.
#[cfg(test)]
pub(super) fn check(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a stray > before {rest:.60}");
        let inside = &rest[start + 1..];
        let end = inside.find('>').expect("an element ends");
        let (element, after) = (&inside[..end], &inside[end + 1..]);
        assert_eq!(element.matches('"').count() % 2, 0, "quotes in {element}");
        assert!(
            !element.contains("NaN") && !element.contains("inf"),
            "{element}"
        );
        let name = element.split([' ', '/']).find(|word| !word.is_empty());
        let name = name.expect("an element has a name");
        match (element.starts_with('/'), element.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (_, true) => {}
            _ => open.push(name),
        }
        rest = after;
    }
    assert!(open.is_empty(), "{open:?} are still open");
    for entity in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;"];
        assert!(
            known.iter().any(|name| entity.starts_with(name)),
            "{entity:.20}"
        );
    }
}
