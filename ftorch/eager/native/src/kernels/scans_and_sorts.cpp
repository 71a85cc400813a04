// What goes along the lines of an array: cumulative functions, sorting, the largest elements.
//
// An array is (outer, length, inner), its lines those of the middle dimension.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "calls.h"
#include "codes.h"
#include "threads/threads.h"

namespace {

struct Lines {
  int64_t outer, length, inner;
  explicit Lines(Integers sizes) : outer(sizes[0]), length(sizes[1]), inner(sizes[2]) {}
  int64_t count() const { return outer * inner; }
  int64_t first(int64_t line) const { return line / inner * length * inner + line % inner; }
};

// Runs use(first line, last line) in tasks, each line costing this many operations.
template <typename Use>
void share_lines(ffi::ThreadPool& pool, int64_t lines, double operations, const Use& use) {
  const int64_t tasks = parts(lines, 8, tasks_for(operations * lines, pool));
  share(pool, tasks, [&](int64_t task) {
    const Range range = part(task, tasks, lines, 8);
    use(range.from, range.to);
  });
}

// --- cumulative functions --------------------------------------------------------------------

enum Step { SCANS(ENUMERATOR) };

// Floats are summed in double precision, as PyTorch's are; integers wrap around.
template <typename T>
struct Total { using type = double; };
template <> struct Total<int32_t> { using type = uint32_t; };
template <> struct Total<int64_t> { using type = uint64_t; };

template <Step STEP, typename Number>
inline Number next(Number total, Number x) {
  if constexpr (STEP == SUM) return total + x;
  else if constexpr (STEP == PRODUCT) return total * x;
  else if constexpr (STEP == MAXIMUM) return total > x ? total : x;  // the last of ties, which zeros of both signs are
  else if constexpr (STEP == MINIMUM) return total < x ? total : x;
  else {
    const Number low = std::min(total, x), high = std::max(total, x);
    if (total != total || x != x) return total + x;
    return low == high && std::isinf(high) ? high : high + std::log1p(std::exp(low - high));
  }
}

// N lines at once, NEXT of them next to each other: a sum waits for the one before, those of other lines need not.
template <Step STEP, int N, typename T, int NEXT = 1>
void accumulate(const T* __restrict x, T* __restrict y, int64_t length, int64_t step, int64_t between) {
  constexpr bool EXTREMUM = STEP == MAXIMUM || STEP == MINIMUM;
  using Number = std::conditional_t<EXTREMUM, T, typename Total<T>::type>;
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  const auto at = [&](int j) { return j / NEXT * between + j % NEXT; };
  Number total[N];
  Bits none[N];  // of extrema: all bits from the first NaN on, which with any others are a NaN
  for (int j = 0; j < N; j++) {
    y[at(j)] = x[at(j)], total[j] = x[at(j)];
    none[j] = -Bits(total[j] != total[j]);
  }
  for (int64_t i = 1; i < length; i++) {
    x += step, y += step;
    for (int j = 0; j < N; j++) {
      const Number now = x[at(j)];
      total[j] = next<STEP, Number>(total[j], now);
      if constexpr (EXTREMUM && std::is_floating_point_v<T>) {
        Bits bits;
        std::memcpy(&bits, &total[j], sizeof bits);
        bits |= none[j] |= -Bits(now != now);
        std::memcpy(y + at(j), &bits, sizeof bits);
      } else {
        y[at(j)] = total[j];
      }
    }
  }
}

template <Step STEP, typename T>
void accumulate_lines(ffi::ThreadPool& pool, const Lines& lines, bool backwards, const T* x, T* y) {
  constexpr int N = 8, WIDE = 32;  // lines far from each other; lines next to each other
  const int64_t step = backwards ? -lines.inner : lines.inner;
  const int64_t start = backwards ? (lines.length - 1) * lines.inner : 0;
  share_lines(pool, lines.count(), 8.0 * lines.length, [&](int64_t line, int64_t to) {
    while (line < to) {
      const int64_t at = lines.first(line) + start, within = line % lines.inner;
      if (lines.inner == 1 && line + N <= to) {
        accumulate<STEP, N>(x + at, y + at, lines.length, step, lines.length);
        line += N;
      } else if (lines.inner == 2 && within == 0 && line + 2 * N <= to) {
        accumulate<STEP, 2 * N, T, 2>(x + at, y + at, lines.length, step, 2 * lines.length);
        line += 2 * N;
      } else if (within + WIDE <= lines.inner && line + WIDE <= to) {
        accumulate<STEP, WIDE>(x + at, y + at, lines.length, step, 1);
        line += WIDE;
      } else {
        accumulate<STEP, 1>(x + at, y + at, lines.length, step, 1);
        line++;
      }
    }
  });
}

// how: one of `Step`, whether from the end. The parts of complex numbers are lines next to each other.
ffi::Error scan(ffi::ThreadPool pool, Any x, AnyResult result, Integers sizes, Integers how) {
  Lines lines(sizes);
  ffi::DataType type = x.element_type();
  if (type == ffi::C64 || type == ffi::C128) {
    if (how[0] != SUM) return ffi::Error::InvalidArgument("a dtype that ftorch's kernels do not have");
    type = type == ffi::C64 ? ffi::F32 : ffi::F64, lines.inner *= 2;
  }
  return by_type(type, [&](auto element) {
    using T = decltype(element);
    const auto with = [&](auto constant) {
      accumulate_lines<decltype(constant)::value>(pool, lines, how[1], static_cast<const T*>(x.untyped_data()),
                                                  static_cast<T*>(result->untyped_data()));
    };
    switch (how[0]) {
      case SUM: return with(std::integral_constant<Step, SUM>{});
      case PRODUCT: return with(std::integral_constant<Step, PRODUCT>{});
      case MAXIMUM: return with(std::integral_constant<Step, MAXIMUM>{});
      case MINIMUM: return with(std::integral_constant<Step, MINIMUM>{});
      default:
        if constexpr (std::is_floating_point_v<T>) with(std::integral_constant<Step, LOG_SUM>{});
    }
  });
}

// The extrema of N lines next to each other, and where the last elements are that equal them; from the first NaN on
// the last of those.
template <Step STEP, int N, typename T>
void locate(const T* x, T* y, int64_t* places, int64_t length, int64_t step) {
  T best[N];
  int64_t place[N] = {};
  for (int j = 0; j < N; j++) best[j] = x[j];
  for (int64_t i = 0; i < length; i++, x += step, y += step, places += step)
    for (int j = 0; j < N; j++) {
      const T now = x[j];
      const bool worse = STEP == MAXIMUM ? now < best[j] : now > best[j];
      if (__builtin_expect(!worse && (best[j] == best[j] || now != now), 0)) best[j] = now, place[j] = i;
      y[j] = best[j], places[j] = place[j];
    }
}

template <Step STEP, typename T>
void locate_lines(ffi::ThreadPool& pool, const Lines& lines, const T* x, T* y, int64_t* places) {
  constexpr int WIDE = 16;
  share_lines(pool, lines.count(), 16.0 * lines.length, [&](int64_t line, int64_t to) {
    while (line < to) {
      const int64_t at = lines.first(line);
      const bool wide = line % lines.inner + WIDE <= lines.inner && line + WIDE <= to;
      const auto locate_some = wide ? locate<STEP, WIDE, T> : locate<STEP, 1, T>;
      locate_some(x + at, y + at, places + at, lines.length, lines.inner);
      line += wide ? WIDE : 1;
    }
  });
}

// how: one of `Step`.
ffi::Error extremum(ffi::ThreadPool pool, Any x, AnyResult values, ffi::ResultBuffer<ffi::S64> places, Integers sizes,
                    Integers how) {
  return by_type(x.element_type(), [&](auto element) {
    using T = decltype(element);
    const auto locate_all = how[0] == MAXIMUM ? locate_lines<MAXIMUM, T> : locate_lines<MINIMUM, T>;
    locate_all(pool, Lines(sizes), static_cast<const T*>(x.untyped_data()), static_cast<T*>(values->untyped_data()),
               places->typed_data());
  });
}

// --- sorting ---------------------------------------------------------------------------------

constexpr int DIGIT = 8, DIGITS = 64 / DIGIT, VALUES = 1 << DIGIT;
constexpr int64_t FEW = 48;  // elements that are sorted sooner by comparing

// Sorts integers by their digits, the last first. Digits that are the same everywhere are left out; so are
// those of the low half where it ascends already, as it does in packed (key, position) pairs.
void sort(int64_t* x, int64_t* room, int64_t length) {
  if (length <= FEW) return std::sort(x, x + length);
  uint64_t varying = 0;
  bool ascends = true;
  for (int64_t i = 1; i < length; i++) {
    varying |= x[i] ^ x[0];
    ascends = ascends && static_cast<uint32_t>(x[i - 1]) <= static_cast<uint32_t>(x[i]);
  }
  int64_t* from = x;
  for (int digit = ascends ? DIGITS / 2 : 0; digit < DIGITS; digit++) {
    const int shift = digit * DIGIT;
    if (!(varying >> shift & (VALUES - 1))) continue;
    const uint64_t flip = digit == DIGITS - 1 ? VALUES / 2 : 0;  // the sign
    const auto value = [=](int64_t v) { return (static_cast<uint64_t>(v) >> shift & (VALUES - 1)) ^ flip; };
    int64_t places[VALUES] = {}, sum = 0;
    for (int64_t i = 0; i < length; i++) places[value(from[i])]++;
    for (int64_t& place : places) sum += std::exchange(place, sum);
    for (int64_t i = 0; i < length; i++) room[places[value(from[i])]++] = from[i];
    std::swap(from, room);
  }
  if (from != x) std::copy(from, from + length, x);
}

ffi::Error sort_lines(ffi::ThreadPool pool, ffi::Buffer<ffi::S64> x, ffi::ResultBuffer<ffi::S64> result, Integers sizes) {
  const Lines lines(sizes);
  share_lines(pool, lines.count(), 64.0 * lines.length, [&](int64_t line, int64_t to) {
    std::vector<int64_t> room(lines.length), own(lines.inner == 1 ? 0 : lines.length);
    for (; line < to; line++) {
      const int64_t* from = x.typed_data() + lines.first(line);
      int64_t* target = result->typed_data() + lines.first(line);
      int64_t* sorted = lines.inner == 1 ? target : own.data();
      for (int64_t i = 0; i < lines.length; i++) sorted[i] = from[i * lines.inner];
      sort(sorted, room.data(), lines.length);
      if (sorted != target)
        for (int64_t i = 0; i < lines.length; i++) target[i * lines.inner] = sorted[i];
    }
  });
  return ffi::Error::Success();
}

// --- the largest elements --------------------------------------------------------------------

inline int32_t bits_of(float x) {
  int32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Negative floats count downwards in their magnitude bits.
inline int32_t in_order(int32_t bits) { return bits ^ (bits >> 31 & INT32_MAX); }

// What comes first has the lowest rank. XLA orders floats by their bits,
struct BitsDown {
  int32_t operator()(float x) const { return ~in_order(bits_of(x)); }
};

// PyTorch has one zero and one nan, above all.
template <bool DOWN>
struct Order {
  int32_t operator()(float x) const {
    const int32_t bits = x == 0 ? 0 : x != x ? 0x7fc00000 : bits_of(x);
    return DOWN ? ~in_order(bits) : in_order(bits);
  }
  int32_t operator()(int32_t x) const { return DOWN ? ~x : x; }
  int64_t operator()(int64_t x) const { return DOWN ? ~x : x; }

  static float value(int32_t rank) {
    const int32_t bits = in_order(DOWN ? ~rank : rank);
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  // Of two numbers the one that comes first; what it says of nan holds, but nan may be passed over.
  static float first(float a, float b) { return (DOWN ? b > a : !(b >= a)) ? b : a; }
  static constexpr float LAST = DOWN ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
};

// Whether floats can be compared as such, sooner than by their ranks.
template <typename Rank, typename X>
constexpr bool BY_VALUE = std::is_same_v<X, float> && !std::is_same_v<Rank, BitsDown>;

constexpr int64_t BLOCK = 16;

// Whether any of a block has a rank below the limit; floats may be said to that are not.
template <typename Rank, typename X>
inline bool any_before(const X* x, int32_t limit) {
  int32_t any = 0;
  if constexpr (BY_VALUE<Rank, X>) {
    const float bound = Rank::value(limit - 1);
    for (int64_t j = 0; j < BLOCK; j++) any |= Rank::LAST < 0 ? !(x[j] < bound) : !(x[j] > bound);
  } else {
    for (int64_t j = 0; j < BLOCK; j++) any |= Rank()(x[j]) < limit;
  }
  return any;
}

// How many candidates are held at once: all where few would go.
inline int64_t candidates(int64_t length, int64_t count) {
  return 8 * count < length ? 2 * count + 2 * BLOCK : length + BLOCK;
}

// A rank that at least `count` elements have or come before: the best of each of several groups are that many
// elements. INT32_MAX if there are not groups enough.
template <typename Rank, typename X>
int32_t reached(const X* x, int64_t length, int64_t count) {
  constexpr int64_t LEAST = 64, MOST = 1024;
  const int64_t groups = (std::max(LEAST, 4 * count) + BLOCK - 1) / BLOCK * BLOCK;
  if (groups > MOST || length < 4 * groups) return INT32_MAX;
  int32_t best[MOST];
  const auto collect = [&](auto* kept, auto last, const auto& first) {
    std::fill(kept, kept + groups, last);
    for (int64_t i = 0; i + groups <= length; i += groups)
      for (int64_t j = 0; j < groups; j++) kept[j] = first(kept[j], x[i + j]);
  };
  if constexpr (BY_VALUE<Rank, X>) {
    float values[MOST];
    collect(values, Rank::LAST, Rank::first);
    std::transform(values, values + groups, best, Rank());
  } else {
    collect(best, INT32_MAX, [](int32_t kept, X x) { return std::min(kept, Rank()(x)); });
  }
  std::nth_element(best, best + count - 1, best + groups);
  return best[count - 1];
}

// Candidates, (rank, position) packed, are collected; when there are twice as many as wanted (and some) the
// rest goes, and what is not before the last of them is passed over.
template <typename Rank, typename X>
void first_ranks(const X* x, int64_t length, int64_t count, int64_t* found, int64_t* room) {
  const Rank rank;
  const int64_t most = candidates(length, count) - BLOCK, worst = reached<Rank>(x, length, count);
  int64_t held = 0, last = worst < INT32_MAX ? (worst + 1) * (int64_t{1} << 32) : INT64_MAX;
  for (int64_t i = 0; i < length; i += BLOCK) {
    const int64_t end = std::min(length, i + BLOCK);
    if (last != INT64_MAX && end == i + BLOCK && !any_before<Rank>(x + i, last >> 32)) continue;
    for (int64_t j = i; j < end; j++) {
      found[held] = static_cast<int64_t>(rank(x[j])) * (int64_t{1} << 32) + j;
      held += found[held] < last;
    }
    if (held > most) {
      std::nth_element(found, found + count - 1, found + held);
      held = count, last = found[count - 1];
    }
  }
  if (held > count && 4 * count < held) std::nth_element(found, found + count - 1, found + held), held = count;
  sort(found, room, held);
}

ffi::Error top(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> values,
               ffi::ResultBuffer<ffi::S32> positions, Integers sizes) {
  const int64_t lines = sizes[0], length = sizes[1], count = sizes[2];
  share_lines(pool, lines, 16.0 * length, [&](int64_t line, int64_t to) {
    std::vector<int64_t> found(candidates(length, count)), room(found.size());
    for (; line < to; line++) {
      const float* from = x.typed_data() + line * length;
      first_ranks<BitsDown>(from, length, count, found.data(), room.data());
      for (int64_t i = 0; i < count; i++) {
        const int64_t position = found[i] & UINT32_MAX;
        values->typed_data()[line * count + i] = from[position];
        positions->typed_data()[line * count + i] = position;
      }
    }
  });
  return ffi::Error::Success();
}

// --- PyTorch's choice among equal elements ---------------------------------------------------

// It follows from the algorithms that PyTorch calls: the standard library's, and quickselect. Keys ascend.
enum Choice { SELECTIONS(ENUMERATOR) };

template <typename Key>
struct Element { Key key, position; };

template <typename Key>
void choose_top(Element<Key>* all, int64_t length, int64_t count, bool in_order) {
  const auto before = [](const auto& a, const auto& b) { return a.key < b.key; };
  if (count * 64 <= length) return std::partial_sort(all, all + count, all + length, before);
  std::nth_element(all, all + count - 1, all + length, before);
  if (in_order) std::sort(all, all + count - 1, before);
}

// Puts the element of a rank where it belongs: quickselect, the median of three in front as the pivot.
template <typename Key>
void choose_rank(Element<Key>* x, int64_t length, int64_t rank) {
  const auto order = [&](int64_t a, int64_t b) {
    if (x[a].key > x[b].key) std::swap(x[a], x[b]);
  };
  for (int64_t low = 0, high = length - 1; low < high;) {
    if (high == low + 1) return order(low, high);
    std::swap(x[low + (high - low) / 2], x[low + 1]);
    order(low + 1, high), order(low, high), order(low + 1, low);
    const Key pivot = x[low].key;
    int64_t left = low + 1, right = high;
    while (true) {
      do left++; while (x[left].key < pivot);
      do right--; while (x[right].key > pivot);
      if (right < left) break;
      std::swap(x[left], x[right]);
    }
    std::swap(x[low], x[right]);
    if (right <= rank) low = left;
    if (right >= rank) high = right - 1;
  }
}

// Whether the first elements of a line, found in order, equal no other of it.
template <typename X>
bool all_differ(const int64_t* found, int64_t count, const X* x, int64_t length) {
  for (int64_t i = 1; i < count; i++)
    if (found[i] >> 32 == found[i - 1] >> 32) return false;
  const X last = x[found[count - 1] & UINT32_MAX];
  int32_t equal = 0;  // none for nan
  for (int64_t i = 0; i < length; i++) equal += x[i] == last;
  return equal == 1;
}

// Positions of the first `number` elements of lines (RANKED: of the one that has this rank, from 0).
template <typename Rank, typename X>
void select_lines(ffi::ThreadPool& pool, const Lines& lines, const X* x, int64_t* positions, Choice choice,
                  int64_t number) {
  using Key = decltype(Rank()(X()));
  constexpr bool NARROW = sizeof(Key) == 4;
  const int64_t length = lines.length, inner = lines.inner, count = choice == RANKED ? 1 : number;
  const bool sorted = choice == SORTED_TOP || (choice == TOP && count * 64 <= length);
  share_lines(pool, lines.count(), 16.0 * length, [&](int64_t line, int64_t to) {
    std::vector<X> own(inner == 1 ? 0 : length);
    std::vector<Element<Key>> all;
    std::vector<int64_t> found(NARROW && sorted ? candidates(length, count) : 0), room(found.size());
    for (; line < to; line++) {
      const X* from = x + lines.first(line);
      for (int64_t i = 0; i < static_cast<int64_t>(own.size()); i++) own[i] = from[i * inner];
      if (inner != 1) from = own.data();
      int64_t* target = positions + line / inner * count * inner + line % inner;
      if constexpr (NARROW) {
        if (sorted) {  // sooner, and right where no elements are equal
          first_ranks<Rank>(from, length, count, found.data(), room.data());
          if (all_differ(found.data(), count, from, length)) {
            for (int64_t i = 0; i < count; i++) target[i * inner] = found[i] & UINT32_MAX;
            continue;
          }
        }
      }
      all.resize(length);
      for (int64_t i = 0; i < length; i++) all[i] = {Rank()(from[i]), static_cast<Key>(i)};
      if (choice == RANKED) choose_rank(all.data(), length, number);
      else choose_top(all.data(), length, count, sorted);
      const auto* first = all.data() + (choice == RANKED ? number : 0);
      for (int64_t i = 0; i < count; i++) target[i * inner] = first[i].position;
    }
  });
}

// how: the `Choice`, how many or which, whether descending.
ffi::Error select(ffi::ThreadPool pool, Any x, ffi::ResultBuffer<ffi::S64> positions, Integers sizes, Integers how) {
  return by_type(x.element_type(), [&](auto element) {
    using X = decltype(element);
    if constexpr (!std::is_same_v<X, double>) {
      const auto all = how[2] ? select_lines<Order<true>, X> : select_lines<Order<false>, X>;
      all(pool, Lines(sizes), static_cast<const X*>(x.untyped_data()), positions->typed_data(),
          static_cast<Choice>(how[0]), how[1]);
    }
  });
}

// --- nothing ---------------------------------------------------------------------------------

// The result lies over the operand.
ffi::Error keep(Any, ffi::RemainingArgs, AnyResult) { return ffi::Error::Success(); }

}  // namespace

#define CALL ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_keep, keep, ffi::Ffi::Bind().Arg<Any>().RemainingArgs().Ret<Any>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_scan, guarded(scan),
                              CALL.Arg<Any>().Ret<Any>().Attr<Integers>("sizes").Attr<Integers>("how"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_extremum, guarded(extremum),
                              CALL.Arg<Any>().Ret<Any>().Ret<ffi::Buffer<ffi::S64>>().Attr<Integers>("sizes")
                                  .Attr<Integers>("how"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_sort, guarded(sort_lines),
    CALL.Arg<ffi::Buffer<ffi::S64>>().Ret<ffi::Buffer<ffi::S64>>().Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_top, guarded(top),
    CALL.Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::S32>>().Attr<Integers>("sizes"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_select, guarded(select),
                              CALL.Arg<Any>().Ret<ffi::Buffer<ffi::S64>>().Attr<Integers>("sizes").Attr<Integers>("how"));
