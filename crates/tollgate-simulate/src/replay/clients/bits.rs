//! One bit for each client.

/// A set of clients, by their numbers.
///
/// It lies in pages. There are many sets, and one with few clients takes little, whatever their numbers are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bits {
    pages: Vec<Option<Box<Page>>>,
    bytes: usize,
}

/// The bits of 4,096 clients.
type Page = [u64; WORDS];

const WORDS: usize = 64;

/// The page of a client, its word there and its bit.
const fn place(client: u32) -> (usize, usize, u64) {
    let word = client as usize / 64;
    (word / WORDS, word % WORDS, 1 << (client % 64))
}

impl Bits {
    pub(crate) fn insert(&mut self, client: u32) {
        let (page, word, bit) = place(client);
        let Some(Some(page)) = self.pages.get_mut(page) else { return self.insert_with_page(client) };
        if let Some(word) = page.get_mut(word) {
            *word |= bit;
        }
    }

    #[cold]
    fn insert_with_page(&mut self, client: u32) {
        let (page, ..) = place(client);
        let before = self.pages.capacity();
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        if let Some(free) = self.pages.get_mut(page) {
            *free = Some(Box::new([0; WORDS]));
            let grown = self.pages.capacity() - before;
            self.bytes += grown * size_of::<Option<Box<Page>>>() + size_of::<Page>();
            self.insert(client);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.pages
            .iter()
            .flatten()
            .flat_map(|page| page.iter())
            .map(|word| u64::from(word.count_ones()))
            .sum()
    }

    /// How many clients of it are not in another set.
    pub(crate) fn count_without(&self, other: &Self) -> u64 {
        let pages = self.pages.iter().enumerate().filter_map(|(place, page)| {
            Some((page.as_ref()?, other.pages.get(place).and_then(Option::as_ref)))
        });
        let words = pages.flat_map(|(page, other)| {
            page.iter().enumerate().map(move |(place, word)| {
                word & !other.and_then(|other| other.get(place)).copied().unwrap_or(0)
            })
        });
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// The memory that it takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the clients that had these numbers, which ascend. It looks only at those of its own pages: there may be
    /// very many sets of few clients.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        let before = std::mem::take(self);
        let page_of = |client: &u32| place(*client).0;
        for (page, _) in before.pages.iter().enumerate().filter(|(_, page)| page.is_some()) {
            let first = kept.partition_point(|client| page_of(client) < page);
            let same_page = kept.iter().skip(first).take_while(|client| page_of(client) == page);
            for (number, client) in (0..).skip(first).zip(same_page) {
                if before.contains(*client) {
                    self.insert(number);
                }
            }
        }
    }

    /// The clients of it, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let pages = (0_u32..).step_by(WORDS * 64).zip(&self.pages);
        let words = pages.flat_map(|(first, page)| {
            let words = page.iter().flat_map(|page| page.iter());
            (first..).step_by(64).zip(words)
        });
        words.flat_map(|(first, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }

    pub(crate) fn contains(&self, client: u32) -> bool {
        let (page, word, bit) = place(client);
        let page = self.pages.get(page).and_then(Option::as_ref);
        page.and_then(|page| page.get(word)).is_some_and(|word| word & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_clients_have_new_numbers() {
        let mut bits = Bits::default();
        [1, 63, 64, 200, 70_000].into_iter().for_each(|client| bits.insert(client));
        assert_eq!(bits.count(), 5);
        bits.keep(&[0, 63, 100, 200, 70_000]);
        let kept: Vec<u32> = (0..300).filter(|client| bits.contains(*client)).collect();
        assert_eq!(kept, [1, 3, 4]);
        assert_eq!(bits.iter().collect::<Vec<_>>(), kept);
        let far: Bits = {
            let mut far = Bits::default();
            [7, 4_095, 4_096, 70_000].into_iter().for_each(|client| far.insert(client));
            far
        };
        assert_eq!(far.iter().collect::<Vec<_>>(), [7, 4_095, 4_096, 70_000]);
        let mut other = Bits::default();
        [3, 5, 9_000].into_iter().for_each(|client| other.insert(client));
        assert_eq!((bits.count_without(&other), other.count_without(&bits)), (2, 2));
        assert_eq!(bits.count_without(&Bits::default()), 3);
        let mut bits = Bits::default();
        [4_095, 4_096, 12_287, 12_288].into_iter().for_each(|client| bits.insert(client));
        bits.keep(&(4_095..12_288).step_by(2).chain([12_288]).collect::<Vec<_>>());
        let kept: Vec<u32> = (0..20_000).filter(|client| bits.contains(*client)).collect();
        assert_eq!(kept, [0, 4_096, 4_097]);
    }

    /// Each client that was kept was looked up in each set: with 100,000 sets and a million clients, that took minutes.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "real time is what it is about")]
    fn sets_of_few_clients_keep_them_at_once() {
        let kept: Vec<u32> = (0..1_000_000).collect();
        let begin = std::time::Instant::now();
        for client in 0..2_000 {
            let mut bits = Bits::default();
            bits.insert(client * 450);
            bits.keep(&kept);
            assert!(bits.count() == 1 && bits.contains(client * 450));
        }
        // It takes a tenth of a second, and took a minute.
        assert!(begin.elapsed().as_secs() < 10, "{:?}", begin.elapsed());
    }

    /// One late client took as much as all before it.
    #[test]
    fn a_set_takes_memory_for_its_own_clients() {
        let mut bits = Bits::default();
        assert_eq!(bits.bytes(), 0);
        bits.insert(2_000_000);
        assert!(bits.contains(2_000_000) && !bits.contains(1_999_999));
        assert!((512..8_192).contains(&bits.bytes()), "{}", bits.bytes());
        (0..2_000_000).for_each(|client| bits.insert(client));
        assert_eq!(bits.count(), 2_000_001);
        assert!((250_000..270_000).contains(&bits.bytes()), "{}", bits.bytes());
        bits.keep(&[]);
        assert_eq!(bits.bytes(), 0);
    }
}
