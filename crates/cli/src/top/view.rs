//! Draws the live view.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row as TableRow, Table, TableState, Tabs};

use crate::top::snapshot::Row;
use crate::top::state::{State, Tab};

/// Cells of the bar that shows a share.
const BAR_WIDTH: usize = 10;
const KEYS: &str = "q quit   p pause   tab next table   arrows move";

pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let rows = [Constraint::Length(2), Constraint::Length(1), Constraint::Min(2), Constraint::Length(1)];
    let [header, tabs, table, footer] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(heading(state), header);
    let titles = Tab::ALL.map(Tab::title);
    let marked = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Tabs::new(titles).select(state.tab as usize).highlight_style(marked).divider(" "), tabs);
    let mut selection = TableState::new().with_selected(Some(state.selected()));
    frame.render_stateful_widget(table_of(state), table, &mut selection);
    frame.render_widget(Paragraph::new(KEYS).style(Style::new().add_modifier(Modifier::DIM)), footer);
}

fn heading(state: &State) -> Paragraph<'_> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let pause = if state.is_paused { "  PAUSED" } else { "" };
    let first = Line::from(vec![Span::styled(state.snapshot.command.as_str(), bold), Span::raw(pause)]);
    let parts = [&state.snapshot.time, &state.snapshot.cost, &state.snapshot.counts];
    let known: Vec<&str> = parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    Paragraph::new(vec![first, Line::from(known.join("; "))])
}

fn table_of(state: &State) -> Table<'_> {
    let [first, second, third] = state.tab.headings();
    let widths = [
        Constraint::Length(BAR_WIDTH as u16),
        Constraint::Length(16),
        Constraint::Length(12),
        Constraint::Length(9),
        Constraint::Fill(1),
    ];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Table::new(state.rows().iter().map(row), widths)
        .header(TableRow::new(["", first, second, third, "name"]).style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

fn row(row: &Row) -> TableRow<'_> {
    let [first, second, third] = row.figures.each_ref().map(|figure| figure.as_str());
    TableRow::new([bar(row.share), first.to_owned(), second.to_owned(), third.to_owned(), row.name.clone()])
}

/// In eighths of a cell.
fn bar(share: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let n_eighths = (share.clamp(0.0, 1.0) * 8.0 * BAR_WIDTH as f64).round() as usize;
    let partial = EIGHTHS[n_eighths % 8];
    let full = "█".repeat(n_eighths / 8);
    if n_eighths.is_multiple_of(8) { full } else { format!("{full}{partial}") }
}

#[cfg(test)]
mod tests {
    use profile::model::{Block, BlockEnd, Context, ContextId, Function, FunctionId, Module, ModuleId, Path};
    use profile::{Estimate, Profile};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::top::names::KnownNames;
    use crate::top::snapshot::Snapshot;

    fn profile() -> Profile {
        let ns = |ms: u64| Estimate { value: ms as f64 * 1e6, variance: 1e12, seen: ms };
        let function = |name: &str, address, ms| Function {
            module: ModuleId(0),
            address,
            size: 16,
            name: name.to_owned(),
            entries: Estimate::exact(1500),
            self_ns: ns(ms),
        };
        let context = |parent: Option<u32>, function, ms, kernel_ms| Context {
            parent: parent.map(ContextId),
            function: FunctionId(function),
            call_site: None,
            entries: Estimate::exact(1500),
            self_ns: ns(ms),
            kernel_ns: ns(kernel_ms),
            misses: 0,
        };
        let block = Block {
            function: FunctionId(1),
            address: 0x2000,
            size: 16,
            last: 15,
            n_insns: 4,
            end: BlockEnd::Return,
            count: Estimate::exact(9),
            self_ns: ns(700),
        };
        let path = Path {
            function: FunctionId(1),
            blocks: vec![profile::model::BlockId(0)],
            back_to: None,
            n_branches: 0,
            count: Estimate::exact(9),
            self_ns: ns(700),
            misses: 0,
        };
        Profile {
            facts: [("command".to_owned(), "sort -n big".to_owned())].into(),
            modules: vec![Module { path: "/no/such/sort".to_owned(), build_id: String::new() }],
            functions: vec![function("main", 0x1000, 200), function("compare", 0x2000, 700)],
            blocks: vec![block],
            paths: vec![path],
            contexts: vec![context(None, 0, 200, 100), context(Some(0), 1, 700, 0)],
            ticks: [("burst".to_owned(), 40), ("no copy yet".to_owned(), 2)].into(),
            ..Profile::default()
        }
    }

    /// The screen as lines of text, after some keys.
    fn screen(keys: &[KeyCode]) -> Vec<String> {
        let mut state = State::default();
        state.set_snapshot(Snapshot::of(&profile(), &mut KnownNames::default()));
        for key in keys {
            state.obey(KeyEvent::new(*key, KeyModifiers::NONE));
        }
        let mut terminal = Terminal::new(TestBackend::new(90, 9)).unwrap();
        terminal.draw(|frame| draw(frame, &mut state)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..90).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
        (0..9).map(line).collect()
    }

    #[test]
    fn functions_come_first_with_shares_and_error_bars() {
        let lines = screen(&[]);
        assert_eq!(lines[0], "sort -n big");
        assert_eq!(lines[1], "1.00 s CPU, 10 % in the kernel; cost not known yet, 42 ticks, 40 bursts");
        assert!(lines[4].starts_with("███████    70.0 % ±0.") && lines[4].ends_with("1,500     compare"), "{lines:#?}");
        assert!(lines[5].contains("20.0 %") && lines[5].contains("100 %") && lines[5].ends_with("main"), "{lines:#?}");
        assert_eq!(lines[8], KEYS);
    }

    #[test]
    fn paths_and_contexts_are_a_tab_away() {
        let paths = screen(&[KeyCode::Tab]);
        assert!(paths[4].ends_with("compare from 0x2000, 1 blocks"), "{paths:#?}");
        let contexts = screen(&[KeyCode::Tab, KeyCode::Tab]);
        assert!(contexts[4].ends_with("  main") && contexts[5].ends_with("    compare"), "{contexts:#?}");
    }

    #[test]
    fn counts_say_how_right_they_are() {
        let mut sampled = profile();
        sampled.scale_error = 0.25;
        let mut state = State::default();
        state.set_snapshot(Snapshot::of(&sampled, &mut KnownNames::default()));
        assert_eq!(state.snapshot.counts, "counts right within a factor of 1.6");
        let mut terminal = Terminal::new(TestBackend::new(140, 9)).unwrap();
        terminal.draw(|frame| draw(frame, &mut state)).unwrap();
        let line: String = (0..140).map(|x| terminal.backend().buffer()[(x, 1)].symbol()).collect();
        assert!(line.trim_end().ends_with("40 bursts; counts right within a factor of 1.6"), "{line}");
    }

    #[test]
    fn a_pause_is_seen() {
        assert_eq!(screen(&[KeyCode::Char('p')])[0], "sort -n big  PAUSED");
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!([0.0, 0.05, 0.5, 1.0, 7.0].map(bar), ["", "▌", "█████", "██████████", "██████████"]);
    }

    #[test]
    fn any_screen_is_large_enough_to_draw_on() {
        for (width, height) in [(1, 1), (3, 2), (20, 4), (300, 100)] {
            let mut state = State::default();
            state.set_snapshot(Snapshot::of(&profile(), &mut KnownNames::default()));
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| draw(frame, &mut state)).unwrap();
        }
    }
}
