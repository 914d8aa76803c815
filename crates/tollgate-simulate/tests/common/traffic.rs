//! Traffic of a site, by client, whose truth is known: each client is drawn by itself.

/// A week and three days: the limit is found in the first seven days.
pub(crate) const DAYS: i64 = 10;
pub(crate) const FITTED_DAYS: i64 = 7;

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// How busy each hour of a day is, in parts of the busiest one: people sleep, and have lunch.
const HOURS: [u32; 24] =
    [20, 12, 8, 6, 6, 10, 20, 40, 70, 90, 100, 95, 80, 85, 95, 100, 95, 90, 80, 85, 90, 75, 55, 35];

/// A client: its requests at these seconds, in order, and its program.
pub(crate) struct Client {
    pub(crate) seconds: Vec<i64>,
    pub(crate) program: &'static str,
}

/// Draws a client: a person, an office or a bot.
pub(crate) fn draw(random: &mut fastrand::Rng) -> Client {
    let (program, mut seconds) = match random.u32(0..100) {
        0..3 => ("examplebot/1.0", bot(random)),
        3..7 => ("Mozilla/5.0", office(random)),
        _ => {
            let visits = zipf(random, 40);
            ("Mozilla/5.0", person(random, visits))
        }
    };
    seconds.retain(|second| (0..DAYS * DAY).contains(second));
    seconds.sort_unstable();
    Client { seconds, program }
}

/// A number above m with a chance of 1 in m, up to `most`: of most clients there is little, of few there is much.
fn zipf(random: &mut fastrand::Rng, most: u32) -> u32 {
    (1.0 / random.f64().max(1e-9)).min(f64::from(most)) as u32
}

/// A second of the ten days, more likely by day than by night, and on a workday than at a weekend.
fn awake(random: &mut fastrand::Rng) -> i64 {
    loop {
        let second = random.i64(0..DAYS * DAY);
        let is_weekend = second / DAY % 7 >= 5;
        let hour = HOURS[(second % DAY / HOUR) as usize];
        if random.u32(0..100) < if is_weekend { hour / 2 } else { hour } {
            return second;
        }
    }
}

/// Visits, each with some pages; a page is a burst of images within three seconds.
fn person(random: &mut fastrand::Rng, visits: u32) -> Vec<i64> {
    let mut seconds = Vec::new();
    for _ in 0..visits {
        let mut now = awake(random);
        for _ in 0..zipf(random, 12) {
            let images = random.i64(1..8);
            seconds.extend((0..images).map(|_| now + random.i64(0..3)));
            now += random.i64(5..90);
        }
    }
    seconds
}

/// Many people behind one address.
fn office(random: &mut fastrand::Rng) -> Vec<i64> {
    (0..random.u32(3..15)).flat_map(|_| person(random, 2)).collect()
}

/// A run on some days, by night or by day, at a steady pace.
fn bot(random: &mut fastrand::Rng) -> Vec<i64> {
    let (pace, length) = (random.i64(1..30), random.i64(60..1_800));
    let runs = random.i64(1..4);
    let starts = (0..runs).map(|_| random.i64(0..DAYS * DAY)).collect::<Vec<_>>();
    starts.iter().flat_map(|start| (0..length / pace).map(move |number| start + number * pace)).collect()
}
