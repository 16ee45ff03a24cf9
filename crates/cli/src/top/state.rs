//! What the user has chosen to see, and how keys change it.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use rustix::process::Signal;

use crate::top::snapshot::{Row, Snapshot};

/// Rows that a page key moves by.
const PAGE: usize = 10;

#[derive(Debug, Default)]
pub struct State {
    pub tab: Tab,
    /// The row that is marked, by table.
    selected: [usize; Tab::ALL.len()],
    pub is_paused: bool,
    pub snapshot: Snapshot,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    #[default]
    Functions,
    Paths,
    Contexts,
}

/// What a key asks of whoever runs the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To end the view.
    Quit,
    /// Ctrl-C, Ctrl-\\ or Ctrl-Z, which the terminal does not turn into signals while the view is
    /// on.
    Signal(Signal),
}

impl Tab {
    pub const ALL: [Tab; 3] = [Tab::Functions, Tab::Paths, Tab::Contexts];

    pub fn title(self) -> &'static str {
        match self {
            Tab::Functions => "Functions",
            Tab::Paths => "Paths",
            Tab::Contexts => "Contexts",
        }
    }

    /// Headings of the three figures.
    pub fn headings(self) -> [&'static str; 3] {
        match self {
            Tab::Functions => ["own time", "with callees", "entries"],
            Tab::Paths => ["own time", "of function", "runs"],
            Tab::Contexts => ["with callees", "own", "entries"],
        }
    }

    fn next(self, steps: usize) -> Tab {
        Tab::ALL[(self as usize + steps) % Tab::ALL.len()]
    }
}

impl State {
    pub fn set_snapshot(&mut self, snapshot: Snapshot) {
        self.snapshot = snapshot;
    }

    pub fn rows(&self) -> &[Row] {
        match self.tab {
            Tab::Functions => &self.snapshot.functions,
            Tab::Paths => &self.snapshot.paths,
            Tab::Contexts => &self.snapshot.contexts,
        }
    }

    /// The marked row of the table that is shown; a table that has shrunk has its last row marked.
    pub fn selected(&self) -> usize {
        self.selected[self.tab as usize].min(self.rows().len().saturating_sub(1))
    }

    pub fn obey(&mut self, key: KeyEvent) -> Option<Wish> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let at = self.selected();
        let last = self.rows().len().saturating_sub(1);
        let row = match key.code {
            KeyCode::Char(letter) if key.modifiers.contains(KeyModifiers::CONTROL) => return signal_of(letter),
            KeyCode::Char('q') | KeyCode::Esc => return Some(Wish::Quit),
            KeyCode::Char('p') => {
                self.is_paused = !self.is_paused;
                return None;
            }
            KeyCode::Tab | KeyCode::Right => {
                self.tab = self.tab.next(1);
                return None;
            }
            KeyCode::BackTab | KeyCode::Left => {
                self.tab = self.tab.next(Tab::ALL.len() - 1);
                return None;
            }
            KeyCode::Up => at.saturating_sub(1),
            KeyCode::Down => at + 1,
            KeyCode::PageUp => at.saturating_sub(PAGE),
            KeyCode::PageDown => at + PAGE,
            KeyCode::Home => 0,
            KeyCode::End => last,
            _ => return None,
        };
        self.selected[self.tab as usize] = row.min(last);
        None
    }
}

/// What a terminal that is not taken over sends for a key that is pressed with Ctrl.
fn signal_of(letter: char) -> Option<Wish> {
    let signal = match letter {
        'c' => Signal::INT,
        'z' => Signal::TSTP,
        // What terminals send for Ctrl-\\ is read as Ctrl-4.
        '\\' | '4' => Signal::QUIT,
        _ => return None,
    };
    Some(Wish::Signal(signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(n_rows: usize) -> State {
        let mut state = State::default();
        state.set_snapshot(Snapshot { functions: vec![Row::default(); n_rows], ..Snapshot::default() });
        state
    }

    fn press(state: &mut State, code: KeyCode) -> Option<Wish> {
        state.obey(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn arrows_stay_within_the_table() {
        let mut state = state(12);
        let mut selected = Vec::new();
        for code in
            [KeyCode::Up, KeyCode::Down, KeyCode::PageDown, KeyCode::Down, KeyCode::PageUp, KeyCode::End, KeyCode::Home]
        {
            assert_eq!(press(&mut state, code), None);
            selected.push(state.selected());
        }
        assert_eq!(selected, [0, 1, 11, 11, 1, 11, 0]);
    }

    #[test]
    fn tables_go_round_and_remember_their_rows() {
        let mut state = state(5);
        press(&mut state, KeyCode::Down);
        press(&mut state, KeyCode::Tab);
        assert_eq!((state.tab, state.selected()), (Tab::Paths, 0));
        press(&mut state, KeyCode::Down);
        assert_eq!(state.selected(), 0, "an empty table has no second row");
        press(&mut state, KeyCode::BackTab);
        press(&mut state, KeyCode::Left);
        assert_eq!(state.tab, Tab::Contexts);
        press(&mut state, KeyCode::Right);
        assert_eq!((state.tab, state.selected()), (Tab::Functions, 1));
    }

    #[test]
    fn a_table_that_shrinks_keeps_a_row_marked() {
        let mut state = state(5);
        press(&mut state, KeyCode::End);
        state.set_snapshot(Snapshot { functions: vec![Row::default(); 2], ..Snapshot::default() });
        assert_eq!(state.selected(), 1);
    }

    #[test]
    fn leaving_pausing_and_interrupting() {
        let mut state = state(1);
        press(&mut state, KeyCode::Char('p'));
        assert!(state.is_paused);
        assert_eq!(press(&mut state, KeyCode::Char('c')), None);
        assert_eq!(press(&mut state, KeyCode::Char('q')), Some(Wish::Quit));
        for (letter, signal) in [('c', Signal::INT), ('4', Signal::QUIT), ('z', Signal::TSTP)] {
            let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
            assert_eq!(state.obey(key), Some(Wish::Signal(signal)));
        }
    }
}
