//! Parts of a report, which each form of output writes in its own way.

use crate::role::Role;

/// A part of a report, with what it is about.
pub(crate) struct Section {
    /// What a page calls it in links.
    pub(crate) id: &'static str,
    pub(crate) blocks: Vec<Block>,
}

/// A piece of a section.
pub(crate) enum Block {
    Table(Table),
    Sentence(String),
    /// A sentence about one thing of the sentence before.
    Detail(String),
}

/// Figures in rows. A table without rows is left out.
pub(crate) struct Table {
    pub(crate) caption: String,
    /// Explains the columns, where the reader has no manual at hand.
    pub(crate) about: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// Whether the explanation is as useful on a terminal.
    pub(crate) is_explained: bool,
    /// The rows that a terminal and a comment show.
    pub(crate) most: usize,
    /// What the rows are, in plural, and the bytes that they may take of a page.
    pub(crate) things: (&'static str, usize),
    /// The least columns of a terminal for a name, as long as others can be left out.
    pub(crate) least_name: usize,
    /// Whether the rows are clients, with what they sent.
    pub(crate) lists_clients: bool,
}

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Its title where there is little room.
    pub(crate) title: &'static str,
    /// Its title where there is more.
    pub(crate) long: &'static str,
    /// The title of the share, if that has a column of its own.
    pub(crate) share: &'static str,
    pub(crate) align: Align,
    /// Whether figures above 0 in it are denials.
    pub(crate) is_denial: bool,
    /// Whether only a page, or only a terminal, has it.
    pub(crate) only: Option<OutputForm>,
    /// Whether a terminal has no room for the share.
    pub(crate) is_share_left_out: bool,
    /// Whether a page has the share without a bar.
    pub(crate) is_bar_left_out: bool,
    /// When a narrow terminal leaves the column, or its share, out: the lowest first.
    pub(crate) spare: Option<u8>,
    pub(crate) spare_share: Option<u8>,
}

/// A form of output with columns of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputForm {
    Page,
    Terminal,
}

/// Where the cells of a column stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// To the left. They are names, which may be shortened.
    Names,
    /// To the left, whole.
    Words,
    /// To the right.
    Figures,
}

/// A row of a table.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// More about it: remarks of ours, or texts of strangers.
    pub(crate) notes: Vec<String>,
    /// Rows with more weight are listed before others, if not all are.
    pub(crate) weight: u64,
}

/// One piece of data.
#[derive(Debug, Clone, Default)]
pub(crate) enum Cell {
    #[default]
    Empty,
    /// Words of ours.
    Words(String),
    /// A name that a stranger may have chosen.
    Name(String),
    /// A client's name, and the program that it calls itself.
    Client(String, Option<String>),
    /// A policy's name, in a role.
    Policy(String, Role),
    Count(u64),
    /// A number of clients, of which one in so many is followed.
    Estimate(u64, u64),
    /// A part of a whole, with its share.
    Part(u64, u64),
    /// The share of a part alone.
    Share(u64, u64),
    /// A time of RFC 3339.
    Time(String),
    /// A part of the greatest of all, as a bar.
    Bar(u64, u64),
}

impl Cell {
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl Table {
    pub(crate) fn new(caption: &str, columns: Vec<Column>) -> Self {
        Self {
            caption: caption.to_owned(),
            about: String::new(),
            is_explained: false,
            columns,
            rows: Vec::new(),
            most: usize::MAX,
            things: ("rows", 25_000),
            least_name: 14,
            lists_clients: false,
        }
    }

    pub(crate) fn about(self, about: &str) -> Self {
        Self { about: about.to_owned(), ..self }
    }

    pub(crate) fn things(self, things: &'static str, max_bytes: usize) -> Self {
        Self { things: (things, max_bytes), ..self }
    }

    pub(crate) fn of_clients(self) -> Self {
        Self { lists_clients: true, ..self }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.weighty_row(0, Vec::new(), cells);
    }

    /// A row with notes about it.
    pub(crate) fn noted_row(&mut self, notes: Vec<String>, cells: Vec<Cell>) {
        self.weighty_row(0, notes, cells);
    }

    /// A row about denied requests and all requests. Those with more denied ones come first if not all are listed, then
    /// those with more requests.
    pub(crate) fn denial_row(&mut self, denied: u64, requests: u64, cells: Vec<Cell>) {
        // One denied request weighs more than any number that are not.
        let weight = match denied {
            0 => requests.min(u64::MAX / 2),
            _ => denied.saturating_add(u64::MAX / 2),
        };
        self.weighty_row(weight, Vec::new(), cells);
    }

    fn weighty_row(&mut self, weight: u64, notes: Vec<String>, cells: Vec<Cell>) {
        self.rows.push(Row { cells, notes, weight });
    }
}

impl Column {
    const fn new(title: &'static str, align: Align) -> Self {
        Self {
            title,
            long: title,
            share: "",
            align,
            is_denial: false,
            only: None,
            is_share_left_out: false,
            is_bar_left_out: false,
            spare: None,
            spare_share: None,
        }
    }

    pub(crate) const fn name(title: &'static str) -> Self {
        Self::new(title, Align::Names)
    }

    pub(crate) const fn words(title: &'static str) -> Self {
        Self::new(title, Align::Words)
    }

    pub(crate) const fn figure(title: &'static str) -> Self {
        Self::new(title, Align::Figures)
    }

    /// Parts of something, and their shares.
    pub(crate) const fn part(title: &'static str, share: &'static str) -> Self {
        Self { share, ..Self::new(title, Align::Figures) }
    }

    pub(crate) const fn long(self, long: &'static str) -> Self {
        Self { long, ..self }
    }

    pub(crate) const fn denials(self) -> Self {
        Self { is_denial: true, ..self }
    }

    /// A page alone has it.
    pub(crate) const fn of_page(self) -> Self {
        Self { only: Some(OutputForm::Page), ..self }
    }

    /// A terminal alone has it.
    pub(crate) const fn of_terminal(self) -> Self {
        Self { only: Some(OutputForm::Terminal), ..self }
    }

    /// Whether this form has it.
    pub(crate) fn is_in(&self, form: OutputForm) -> bool {
        self.only.is_none_or(|only| only == form)
    }

    /// A page has the shares without bars.
    pub(crate) const fn without_bar(self) -> Self {
        Self { is_bar_left_out: true, ..self }
    }

    /// A terminal has the parts without their shares.
    pub(crate) const fn without_share(self) -> Self {
        Self { is_share_left_out: true, ..self }
    }

    pub(crate) const fn spare(self, order: u8) -> Self {
        Self { spare: Some(order), ..self }
    }

    pub(crate) const fn spare_share(self, order: u8) -> Self {
        Self { spare_share: Some(order), ..self }
    }
}
