//! The first pass over a journal: which lines are good, which of them still hold, and where the good part ends.
//!
//! The last write may be torn, because the process or the machine stopped in the middle of it. Its changes were never
//! answered, so this is no damage. A torn write is the last one, and has no end or has zero bytes, which a file system
//! leaves where a write has not arrived. Everything else that cannot be read is damage.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek as _};

use super::change::{ChangeMark, JournalHead};
use super::error::{DamageReason, JournalDamage};
use super::line::{self, LinePlace};
use super::lines::{JournalLines, LineContent, PlacedLine};
use super::named_lines::NamedLines;

/// What the first pass has found.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// `None` if the first line is damaged.
    pub(super) head: Option<JournalHead>,
    /// The highest number of a change.
    pub(super) number: u64,
    /// The offsets of the lines that set the overrides there are, in their order.
    pub(super) live: Vec<u64>,
    /// The bytes of these lines.
    pub(super) live_bytes: u64,
    /// Where the last good line ends.
    pub(super) end: u64,
    /// The bytes after it, of a torn write.
    pub(super) torn: u64,
    /// The damaged places, in their order.
    pub(super) damage: Vec<JournalDamage>,
}

/// The first pass, in progress.
#[derive(Default)]
struct Surveyor {
    survey: Survey,
    /// The lines that set or delete an override.
    lines: NamedLines,
    /// Records listed after the first line.
    listed: u64,
    /// Whether a change has followed them.
    has_changes: bool,
    /// Whether the next change may have any number, because a line before it is damaged.
    is_after_damage: bool,
    /// The first line of what may be a torn write.
    hole: Option<JournalDamage>,
    /// How many good lines of the same write have followed.
    rest: u64,
    /// Whether there were such lines, and it was no torn write.
    has_passed_over: bool,
    /// Where the last write that can be torn begins.
    answered: u64,
}

impl Survey {
    /// Returns the form of a journal that another version has written.
    pub(super) fn foreign_form(&self) -> Option<u32> {
        match self.damage.first()?.reason {
            DamageReason::Form(form) => Some(form),
            _ => None,
        }
    }

    /// Surveys a journal from its start.
    pub(super) fn of(journal: &File) -> io::Result<Self> {
        let (survey, is_whole) = Self::pass(journal, 0)?;
        if is_whole {
            return Ok(survey);
        }
        // Lines were passed over that may hold. What is before the last write is no torn write.
        let last = last_write(lines_of(journal)?)?;
        Ok(Self::pass(journal, last)?.0)
    }

    /// Surveys a journal of which everything before this offset was on the disk. Also returns whether no line was passed
    /// over as the rest of a torn write that is none.
    fn pass(journal: &File, answered: u64) -> io::Result<(Self, bool)> {
        let mut surveyor = Surveyor { answered, ..Surveyor::default() };
        let mut lines = lines_of(journal)?;
        while let Some(line) = lines.next()? {
            surveyor.pass(line);
        }
        let has_passed_over = surveyor.has_passed_over;
        Ok((surveyor.finish(lines.line() + 1, lines.offset()), !has_passed_over))
    }
}

/// How much is read at once.
const CHUNK: usize = 1 << 20;

fn lines_of(mut journal: &File) -> io::Result<JournalLines<BufReader<&File>>> {
    journal.rewind()?;
    Ok(JournalLines::new(BufReader::with_capacity(CHUNK, journal)))
}

/// Returns the offset of the last good line that begins a write.
fn last_write(mut lines: JournalLines<impl BufRead>) -> io::Result<u64> {
    let mut last = 0;
    while let Some(line) = lines.next()? {
        if let LineContent::Whole(bytes) = line.content
            && line::read(bytes).is_ok_and(|(place, _)| place == LinePlace::First)
        {
            last = line.offset;
        }
    }
    Ok(last)
}

impl Surveyor {
    fn pass(&mut self, line: PlacedLine<'_>) {
        let read = match line.content {
            LineContent::Whole(bytes) => line::read(bytes).map_err(|fault| match bytes.contains(&0) {
                true => DamageReason::Erased,
                false => fault.into(),
            }),
            LineContent::Cut(_) => Err(DamageReason::Cut),
            LineContent::TooLong => Err(DamageReason::TooLong),
        };
        match read {
            Ok((place, json)) => self.pass_good(line, place, json),
            Err(reason) => {
                let damage = JournalDamage { line: line.line, offset: line.offset, reason };
                let may_be_torn = match line.content {
                    LineContent::Cut(bytes) => line::may_be_cut(bytes),
                    _ => damage.reason == DamageReason::Erased,
                };
                // The first line was on the disk before the file had its name.
                if may_be_torn && line.line > 1 && line.offset >= self.answered {
                    self.hole.get_or_insert(damage);
                } else {
                    self.damaged(damage);
                }
            }
        }
    }

    fn pass_good(&mut self, line: PlacedLine<'_>, place: LinePlace, json: &[u8]) {
        if let Some(hole) = self.hole.take() {
            // The rest of a torn write was not answered either.
            if place == LinePlace::Later {
                self.hole = Some(hole);
                self.rest += 1;
                return;
            }
            self.has_passed_over |= self.rest > 0;
            self.damaged(hole);
        }
        self.survey.end = line.offset + line.length;
        let passed = match line.line {
            1 => self.pass_head(json),
            _ => self.pass_change(line, json),
        };
        if let Err(reason) = passed {
            self.damaged(JournalDamage { line: line.line, offset: line.offset, reason });
        }
    }

    fn pass_head(&mut self, json: &[u8]) -> Result<(), DamageReason> {
        let head = JournalHead::parse(json)?;
        self.survey.number = head.number;
        self.survey.head = Some(head);
        Ok(())
    }

    fn pass_change(&mut self, line: PlacedLine<'_>, json: &[u8]) -> Result<(), DamageReason> {
        let ChangeMark { name, version, is_set } = ChangeMark::parse(json)?;
        let was_there = |head: JournalHead| version <= head.number;
        let is_record = is_set && !self.has_changes && self.survey.head.is_some_and(was_there);
        let fault = match is_record {
            true => Ok(()),
            false => self.pass_number(version),
        };
        self.listed += u64::from(is_record);
        self.lines.add(&name, line.offset, is_set.then_some(line.length));
        fault
    }

    /// Notes the number of a change.
    fn pass_number(&mut self, found: u64) -> Result<(), DamageReason> {
        let last = self.survey.number;
        let is_known = self.survey.head.is_some() && !self.is_after_damage;
        let counted = if self.has_changes { Ok(()) } else { self.count() };
        self.survey.number = last.max(found);
        (self.has_changes, self.is_after_damage) = (true, false);
        if is_known && last.checked_add(1) != Some(found) {
            return Err(DamageReason::Order { last, found });
        }
        counted
    }

    /// Checks how many records were listed. If lines are damaged, that has been noted.
    fn count(&self) -> Result<(), DamageReason> {
        match self.survey.head {
            Some(JournalHead { records, .. }) if records != self.listed && self.survey.damage.is_empty() => {
                Err(DamageReason::Count { expected: records, found: self.listed })
            }
            _ => Ok(()),
        }
    }

    fn damaged(&mut self, damage: JournalDamage) {
        self.is_after_damage = true;
        self.survey.damage.push(damage);
    }

    /// Ends at this line, which there is not.
    fn finish(mut self, line: u64, offset: u64) -> Survey {
        if line == 1 {
            self.damaged(JournalDamage { line, offset, reason: DamageReason::Cut });
        }
        if !self.has_changes
            && let Err(reason) = self.count()
        {
            self.damaged(JournalDamage { line, offset, reason });
        }
        let Self { mut survey, lines, .. } = self;
        survey.torn = offset - survey.end;
        (survey.live, survey.live_bytes) = lines.into_live();
        survey
    }
}
