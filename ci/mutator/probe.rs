/// The number of the mutant that is on; asked at the place of that number. With `MUTANT_REACHED`, the places that
/// each test reaches are written to that file: its name, its microseconds, the places.
#[doc(hidden)]
pub fn __mutant(place: usize) -> u32 {
    use std::cell::RefCell;
    use std::io::Write;
    use std::sync::LazyLock;
    use std::time::Instant;

    static NUMBER: LazyLock<u32> =
        LazyLock::new(|| std::env::var("MUTANT").map_or(0, |number| number.parse().unwrap()));
    static NOTES: LazyLock<Option<std::path::PathBuf>> =
        LazyLock::new(|| std::env::var_os("MUTANT_REACHED").map(Into::into));

    /// libtest names the thread of each test after it.
    struct Reached {
        test: String,
        began: Instant,
        /// By number.
        places: Vec<bool>,
    }

    impl Drop for Reached {
        fn drop(&mut self) {
            let micros = self.began.elapsed().as_micros();
            let places = self
                .places
                .iter()
                .enumerate()
                .filter(|(_, is_reached)| **is_reached);
            let places: Vec<String> = places.map(|(place, _)| place.to_string()).collect();
            let line = format!("{}\t{micros}\t{}\n", self.test, places.join(" "));
            // At once, as other tests write too.
            let file = NOTES.as_ref().unwrap();
            let mut file = std::fs::File::options()
                .append(true)
                .create(true)
                .open(file)
                .unwrap();
            file.write_all(line.as_bytes()).unwrap();
        }
    }

    thread_local! {
        static REACHED: RefCell<Reached> = RefCell::new(Reached {
            test: std::thread::current().name().unwrap_or_default().to_owned(),
            began: Instant::now(),
            places: Vec::new(),
        });
    }

    if NOTES.is_some() {
        // Not in what runs as the thread ends.
        let _ = REACHED.try_with(|reached| {
            let places = &mut reached.borrow_mut().places;
            if places.len() <= place {
                places.resize(place + 1, false);
            }
            places[place] = true;
        });
    }
    *NUMBER
}
