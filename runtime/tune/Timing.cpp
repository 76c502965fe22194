// Rounds of two samples, in an order that alternates.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/tune/Timing.h"

#include <algorithm>
#include <cmath>
#include <ctime>

namespace yaglom::runtime::tune {
namespace {

/// A sample takes at least so long, for the clock's sake; short launches are timed in groups.
constexpr double kSampleSeconds = 2e-3;
constexpr int kMostRepeats = 1000;
/// A gain below this share does not pay for another program.
constexpr double kLeastGain = 0.005;
constexpr double kPatience = 4;
/// After this many rounds what is clearly slower is given up.
constexpr std::size_t kEarly = 3;

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Of a launch on the calling thread alone, its processor time: what else the machine does then disturbs less.
double secondsNow(bool ofThread) {
  timespec time{};
  clock_gettime(ofThread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double sample(Subject &subject, int repeats) {
  const double start = secondsNow(subject.isSerial());
  for (int i = 0; i < repeats; ++i)
    subject.launch();
  return (secondsNow(subject.isSerial()) - start) / repeats;
}

} // namespace

Middle::Middle(std::vector<double> values) {
  const auto middle = [&] {
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), at, values.end());
    return *at;
  };
  if (values.empty())
    return;
  median = middle();
  for (double &value : values)
    value = std::fabs(value - median);
  spread = middle();
}

double Comparison::ratioSpread() const {
  // Of normal values: sigma is 1.4826 median distances, and a median has 1.2533 times the error of a mean.
  return 2 * 1.4826 * 1.2533 * Middle(ratios).spread /
         std::sqrt(static_cast<double>(std::max<std::size_t>(rounds(), 1)));
}

bool Comparison::isFaster() const { return !ratios.empty() && ratio() + ratioSpread() < 1 - kLeastGain; }

bool Comparison::mayBeFaster() const { return !isFaster() && ratio() < 1 - kLeastGain; }

Comparison compare(Subject &first, Subject &second, const TimingLimits &limits) {
  Comparison result;
  const Clock::time_point before = Clock::now();
  const double once = sample(first, 1);
  const int repeats = static_cast<int>(std::clamp(kSampleSeconds / once, 1.0, double(kMostRepeats)));
  const Clock::time_point start = Clock::now();
  double ofRound = 2 * repeats * secondsSince(before); // by the clock on the wall, as the deadline
  while (result.rounds() < limits.most) {
    if (limits.cancel && limits.cancel->load())
      break;
    if (Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(ofRound)) >
        limits.deadline)
      break;
    const Clock::time_point begun = Clock::now();
    const bool turned = result.rounds() % 2;
    const double one = sample(turned ? second : first, repeats), two = sample(turned ? first : second, repeats);
    ofRound = result.secondsOfRound = secondsSince(begun);
    result.first.push_back(1e3 * (turned ? two : one));
    result.second.push_back(1e3 * (turned ? one : two));
    result.ratios.push_back(result.second.back() / result.first.back());
    if (limits.mayGiveUp && result.rounds() >= kEarly && result.ratio() - result.ratioSpread() > 1)
      break;
    const double patience = result.mayBeFaster() ? kPatience : 1;
    if (result.rounds() >= limits.least && secondsSince(start) > patience * limits.seconds)
      break;
  }
  return result;
}

} // namespace yaglom::runtime::tune
