use roxmltree::{Document, Node, ParsingOptions};

use super::super::report::Report;
use super::super::report::tests::{sample, sample_of};
use super::*;

fn read(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{error}"))
}

fn named<'a, 'd>(document: &'a Document<'d>, name: &str) -> Vec<Node<'a, 'd>> {
    document.descendants().filter(|node| node.has_tag_name(name)).collect()
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect()
}

#[test]
fn the_page_is_well_formed_and_fetches_nothing() {
    let page = page(&sample());
    let document = read(&page);
    for name in ["script", "link", "img", "iframe", "object", "image", "use", "base"] {
        assert!(named(&document, name).is_empty(), "<{name}>");
    }
    for node in document.descendants().filter(Node::is_element) {
        for attribute in node.attributes() {
            assert!(!attribute.value().contains("//"), "{}", attribute.value());
            assert!(!attribute.name().starts_with("on"), "{}", attribute.name());
            assert!(!["src", "href", "srcset"].contains(&attribute.name()), "{attribute:?}");
        }
    }
    for word in ["url(", "@import", "http:", "https:", "@font-face"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn the_page_fits_a_phone_and_has_both_colour_schemes() {
    let page = page(&sample());
    let document = read(&page);
    let meta = |name: &str| {
        let metas = named(&document, "meta");
        let found = metas.iter().find(|meta| meta.attribute("name") == Some(name));
        found.and_then(|meta| meta.attribute("content")).map(str::to_owned)
    };
    let viewport = meta("viewport").expect("a viewport");
    assert!(viewport.contains("width=device-width"), "{viewport}");
    assert_eq!(meta("color-scheme").as_deref(), Some("light dark"));
    let style = text_of(named(&document, "style")[0]);
    let (light, dark) = style.split_once("prefers-color-scheme: dark").expect("a dark scheme");
    for name in ["--paper", "--ink", "--soft", "--line", "--alert", "--c0", "--c1", "--c2", "--c3"]
    {
        let value = |part: &str| {
            let (_, rest) = part.split_once(&format!("{name}: ")).expect(name);
            rest.split(';').next().map(str::to_owned)
        };
        assert_ne!(value(light), value(dark), "{name}");
    }
    for svg in named(&document, "svg") {
        assert!(svg.attribute("viewBox").is_some(), "a picture of fixed size");
    }
}

#[test]
fn every_variable_and_class_that_is_used_is_there() {
    let page = page(&sample());
    let document = read(&page);
    for node in document.descendants().filter(Node::is_element) {
        for class in node.attribute("class").unwrap_or_default().split_whitespace() {
            assert!(class == "d0" || STYLE.contains(&format!(".{class}")), "{class}");
        }
    }
    for used in STYLE.split("var(").skip(1) {
        let name = used.split(')').next().expect("closed");
        assert!(STYLE.contains(&format!("{name}: ")), "{name}");
    }
}

#[test]
fn all_four_pictures_show_every_row_they_should() {
    let page = page(&sample());
    let document = read(&page);
    let figures = named(&document, "figure");
    let titles: Vec<String> = figures
        .iter()
        .filter_map(|figure| figure.descendants().find(|node| node.has_tag_name("figcaption")))
        .map(text_of)
        .collect();
    assert_eq!(titles.len(), 4, "{titles:?}");
    let count = |figure: &Node<'_, '_>, name: &str| {
        figure.descendants().filter(|node| node.has_tag_name(name)).count()
    };
    assert_eq!(count(&figures[0], "rect"), 6, "a bar a row");
    assert_eq!(count(&figures[1], "polyline"), 6, "a curve a row");
    for figure in &figures[2..] {
        // Four points and two marks in the legend; a line for each mode.
        assert_eq!((count(figure, "circle"), count(figure, "polyline")), (6, 2));
    }
}

#[test]
fn no_drawing_leaves_its_picture() {
    let page = page(&sample());
    let document = read(&page);
    for svg in named(&document, "svg") {
        let view: Vec<f64> = svg
            .attribute("viewBox")
            .unwrap_or_default()
            .split(' ')
            .map(|number| number.parse().expect("a number"))
            .collect();
        for node in svg.descendants() {
            for (name, most) in [("x", view[2]), ("x2", view[2]), ("y", view[3]), ("y2", view[3])] {
                if let Some(value) = node.attribute(name) {
                    let value: f64 = value.parse().expect("a number");
                    assert!((0.0..=most).contains(&value), "{name}={value} of {most}");
                }
            }
        }
    }
}

#[test]
fn text_from_elsewhere_is_escaped() {
    let mut report = sample();
    report.partial = Some("<script>alert('x')</script> & more".to_owned());
    let page = page(&report);
    let document = read(&page);
    assert!(named(&document, "script").is_empty());
    assert!(text_of(document.root()).contains("<script>alert('x')</script> & more"));
    assert!(text_of(document.root()).contains("(<test> & \"quotes\")"));
}

#[test]
fn a_row_without_figures_is_marked_in_the_ledger_and_drawn_nowhere() {
    let page = page(&sample_of(|rows| rows[2].ledger.lost = 4));
    let document = read(&page);
    let bad: Vec<_> = named(&document, "tr")
        .into_iter()
        .filter(|row| row.attribute("class") == Some("bad"))
        .collect();
    assert_eq!(bad.len(), 1);
    assert!(text_of(bad[0]).starts_with("dedup every 100ms"));
    let figures = named(&document, "figure");
    let drawn: String = figures.into_iter().map(text_of).collect();
    assert!(!drawn.contains("dedup every 100ms"));
}

#[test]
fn a_report_without_any_figure_is_still_a_page() {
    let mut report: Report = sample();
    for row in &mut report.rows {
        row.metrics.clear();
        row.latency_curve.clear();
    }
    let page = page(&report);
    assert!(named(&read(&page), "figure").is_empty());
}
