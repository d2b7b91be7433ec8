// Exercise 21.10: scaling laws. From measured times to speedup, efficiency, and the serial fraction that explains them,
// with an interval that says how precisely the measurements determine it.
//
// Symbols: p ranks, T(p) seconds on p ranks, T(1) the best serial program, s the serial fraction of T(1).
// A number that makes no sense (a time that is not positive and finite, p < 1, s outside [0, 1]) is an Error(usage)
// that says which; measurements are never silently dropped.
#pragma once

#include <vector>

namespace lockstep::week21 {

/// Given: S(p) = T(1) / T(p).
double speedup(double serial_seconds, double parallel_seconds);

/// Given: E(p) = S(p) / p. 1 is ideal for a fixed problem (strong scaling).
double efficiency(double serial_seconds, double parallel_seconds, int ranks);

/// Given: weak scaling, where the problem grows with p: T(1) / T(p), each with the same work per rank. 1 is ideal.
double weak_efficiency(double serial_seconds, double parallel_seconds);

/// Given: Amdahl 1967: S(p) = 1 / (s + (1 − s)/p) for a problem of fixed size. Never above 1/s.
double amdahl_speedup(double serial_fraction, int ranks);

/// Given: Gustafson 1988: S(p) = s + (1 − s)·p for a problem whose parallel part grows with p; s is measured on p
/// ranks.
double gustafson_speedup(double serial_fraction, int ranks);

/// Karp and Flatt 1990: the serial fraction that explains a speedup on p ≥ 2 ranks, Amdahl solved for s. Constant over
/// p where Amdahl holds; rising with p where an overhead grows; negative where the speedup is above p.
double karp_flatt(double speedup, int ranks);

struct Measurement {
  int ranks = 1;
  double seconds = 0;
};

/// An estimate and the interval that holds the truth in 95 of 100 such experiments.
struct SerialFraction {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Fits T(p) = T(1)·(s + (1 − s)/p) by least squares over s and T(1), with residuals counted relative to the measured
/// time: timing noise is a percentage. Half of the interval is Student's t, for two degrees of freedom less than there
/// are measurements, times the standard error of s to first order. Several measurements of one p are welcome. At least
/// 3 measurements and 2 different p, else Error(usage). Not clipped to [0, 1]: an estimate outside means that Amdahl is
/// the wrong law.
SerialFraction fit_amdahl(const std::vector<Measurement>& measurements);

}  // namespace lockstep::week21
