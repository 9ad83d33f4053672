//! Cities of the world, their distances, and packet delays.
//!
//! What must never enter: replicas.

use std::time::Duration;

/// A place on the earth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct City {
    /// Its name.
    pub(super) name: &'static str,
    /// Degrees north of the equator.
    latitude: f64,
    /// Degrees east of Greenwich.
    longitude: f64,
}

const fn city(name: &'static str, latitude: f64, longitude: f64) -> City {
    City {
        name,
        latitude,
        longitude,
    }
}

/// The possible places of replicas: large cities of all continents, to about a tenth of a degree.
pub(super) const CITIES: [City; 64] = [
    city("Accra", 5.6, -0.2),
    city("Addis Ababa", 9.0, 38.8),
    city("Amsterdam", 52.4, 4.9),
    city("Atlanta", 33.7, -84.4),
    city("Auckland", -36.8, 174.8),
    city("Bangkok", 13.8, 100.5),
    city("Beijing", 39.9, 116.4),
    city("Berlin", 52.5, 13.4),
    city("Bogota", 4.7, -74.1),
    city("Boston", 42.4, -71.1),
    city("Brisbane", -27.5, 153.0),
    city("Buenos Aires", -34.6, -58.4),
    city("Cairo", 30.0, 31.2),
    city("Cape Town", -33.9, 18.4),
    city("Chicago", 41.9, -87.6),
    city("Dallas", 32.8, -96.8),
    city("Delhi", 28.6, 77.2),
    city("Denver", 39.7, -105.0),
    city("Dubai", 25.2, 55.3),
    city("Dublin", 53.3, -6.3),
    city("Frankfurt", 50.1, 8.7),
    city("Geneva", 46.2, 6.1),
    city("Hanoi", 21.0, 105.8),
    city("Helsinki", 60.2, 24.9),
    city("Hong Kong", 22.3, 114.2),
    city("Honolulu", 21.3, -157.9),
    city("Istanbul", 41.0, 29.0),
    city("Jakarta", -6.2, 106.8),
    city("Johannesburg", -26.2, 28.0),
    city("Kyiv", 50.5, 30.5),
    city("Lagos", 6.5, 3.4),
    city("Lima", -12.0, -77.0),
    city("Lisbon", 38.7, -9.1),
    city("London", 51.5, -0.1),
    city("Los Angeles", 34.1, -118.2),
    city("Madrid", 40.4, -3.7),
    city("Manila", 14.6, 121.0),
    city("Mexico City", 19.4, -99.1),
    city("Miami", 25.8, -80.2),
    city("Montreal", 45.5, -73.6),
    city("Mumbai", 19.1, 72.9),
    city("Nairobi", -1.3, 36.8),
    city("New York", 40.7, -74.0),
    city("Osaka", 34.7, 135.5),
    city("Oslo", 59.9, 10.8),
    city("Paris", 48.9, 2.4),
    city("Perth", -32.0, 115.9),
    city("Reykjavik", 64.1, -21.9),
    city("Riyadh", 24.7, 46.7),
    city("Rome", 41.9, 12.5),
    city("San Francisco", 37.8, -122.4),
    city("Santiago", -33.4, -70.7),
    city("Sao Paulo", -23.6, -46.6),
    city("Seattle", 47.6, -122.3),
    city("Seoul", 37.6, 127.0),
    city("Shanghai", 31.2, 121.5),
    city("Singapore", 1.4, 103.8),
    city("Stockholm", 59.3, 18.1),
    city("Sydney", -33.9, 151.2),
    city("Taipei", 25.0, 121.6),
    city("Tokyo", 35.7, 139.7),
    city("Toronto", 43.7, -79.4),
    city("Vienna", 48.2, 16.4),
    city("Warsaw", 52.2, 21.0),
];

/// The mean radius of the earth, in kilometres.
const EARTH_KM: f64 = 6371.0;

/// The speed of light in glass fibre, two thirds of that in vacuum, in kilometres a second.
const FIBRE_KM_PER_S: f64 = 299_792.458 * 2.0 / 3.0;

/// The path of a packet is longer than the great circle by this factor. An assumption: with it the round trip is 83 ms between
/// London and New York, and 153 ms between Frankfurt and Singapore.
pub(super) const STRETCH: f64 = 1.5;

/// The great circle between two cities, in kilometres.
pub(super) fn distance_km(one: City, other: City) -> f64 {
    let [a, b] = [one.latitude, other.latitude].map(f64::to_radians);
    let [c, d] = [one.longitude, other.longitude].map(f64::to_radians);
    // The haversine formula, which stays exact for small distances.
    let half = ((b - a) / 2.0).sin().powi(2) + a.cos() * b.cos() * ((d - c) / 2.0).sin().powi(2);
    2.0 * EARTH_KM * half.sqrt().min(1.0).asin()
}

/// The time of a packet from one city to the other, without jitter.
pub(super) fn delay(one: City, other: City) -> Duration {
    Duration::from_secs_f64(distance_km(one, other) * STRETCH / FIBRE_KM_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> City {
        let found = CITIES.iter().find(|city| city.name == name);
        *found.expect("it is in the list")
    }

    #[test]
    fn distances_are_those_of_an_atlas() {
        let pairs = [
            ("London", "New York", 5570.0),
            ("Frankfurt", "Singapore", 10_260.0),
            ("Sydney", "Auckland", 2160.0),
            ("Buenos Aires", "Tokyo", 18_370.0),
            ("Cape Town", "Cairo", 7240.0),
        ];
        for (one, other, kilometres) in pairs {
            let found = distance_km(named(one), named(other));
            let off = (found / kilometres - 1.0).abs();
            assert!(off < 0.01, "{one} to {other}: {found:.0} km");
        }
    }

    #[test]
    fn delays_are_those_of_the_comment() {
        let round_trip = |one, other| 2 * delay(named(one), named(other));
        assert_eq!(round_trip("London", "New York").as_millis(), 83);
        assert_eq!(round_trip("Frankfurt", "Singapore").as_millis(), 153);
    }

    #[test]
    fn every_city_is_there_once() {
        for (place, one) in CITIES.iter().enumerate() {
            for other in &CITIES[place + 1..] {
                assert_ne!(one.name, other.name);
                assert!(distance_km(*one, *other) > 50.0, "{one:?} {other:?}");
            }
        }
    }
}
