// Time intervals: union and intersection.
#pragma once

#include <algorithm>
#include <vector>

namespace lockstep::analysis {

struct Interval {
  double begin, end;
};

/// Returns the union: sorted and without overlaps.
inline std::vector<Interval> joined(std::vector<Interval> all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& next : all) {
    if (result.empty() || next.begin > result.back().end)
      result.push_back(next);
    else
      result.back().end = std::max(result.back().end, next.end);
  }
  return result;
}

inline double length(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const Interval& i : intervals) sum += i.end - i.begin;
  return sum;
}

/// Returns the intersection. Each argument is sorted and without overlaps.
inline std::vector<Interval> common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> both;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    const double begin = std::max(a[i].begin, b[k].begin), end = std::min(a[i].end, b[k].end);
    if (begin < end) both.push_back({begin, end});
    (a[i].end < b[k].end ? i : k) += 1;
  }
  return both;
}

/// Returns the part of `a` outside `b`. Each argument is sorted and without overlaps.
inline std::vector<Interval> outside(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> rest;
  std::size_t next = 0;  // the first of b that may reach into what is left of a
  for (Interval i : a) {
    while (next < b.size() && b[next].end <= i.begin) ++next;
    for (std::size_t k = next; k < b.size() && b[k].begin < i.end; ++k) {
      if (b[k].begin > i.begin) rest.push_back({i.begin, b[k].begin});
      i.begin = std::max(i.begin, b[k].end);
    }
    if (i.begin < i.end) rest.push_back(i);
  }
  return rest;
}

}  // namespace lockstep::analysis
