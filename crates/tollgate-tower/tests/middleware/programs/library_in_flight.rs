use tollgate::{Limiter, MemoryStore, Quota};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let reports = Limiter::builder("reports").quota(Quota::per_day(1_000));
    let reports = reports.build_in_flight("2~in_flight".parse()?, MemoryStore::new())?;

    let first = reports.hold("alice")?.into_hold();
    let _second = reports.hold("alice")?.into_hold();
    let third = reports.hold("alice")?;
    println!("allowed: {}, because {:?}", third.is_allowed(), third.reason());

    drop(first);
    println!("allowed: {}", reports.hold("alice")?.is_allowed());
    Ok(())
}
