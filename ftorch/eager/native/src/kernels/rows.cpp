// Elements taken by an index, and elements added by one.
//
// Both go along four loops, from the outermost on: `sizes`, and for each how far apart its elements lie in the
// array (`steps`, then the step between what neighbouring indices name) and in the index (`places`).

#include <cstdlib>
#include <cstring>
#include <string>

#include "calls.h"
#include "threads/threads.h"

namespace {

// Operations in whose time an element is moved, of a row; or by an index of its own; or is made zero.
constexpr double MOVE = 8, NAME = 100, WIPE = 4;

struct Loops {
  Integers sizes, steps, places;
  int64_t limit;  // indices are below
  int64_t outer() const { return sizes[0] * sizes[1] * sizes[2]; }
  int64_t inner() const { return sizes[3]; }
  int64_t step() const { return steps[4]; }
  // Into how many parts the outermost loop divides the array.
  int64_t apart() const {
    for (int d = 0; d < 3; d++)
      if (sizes[d] > 1) return steps[d] ? sizes[d] : 1;
    return 1;
  }
  bool by_rows() const { return places[3] == 0 && steps[3] == 1; }
  double cost() const { return (by_rows() ? MOVE : NAME) * outer() * inner(); }
};

template <typename ItemOf, typename IndexOf>
struct Types {
  using Item = ItemOf;
  using Index = IndexOf;
};

#define KERNELS "kernels/rows.inc"
#include "vectors/instructions.inc"

// --- taking ----------------------------------------------------------------------------------

template <typename T>
void take_items(ffi::ThreadPool& pool, const Loops& loops, const void* x, const void* index, void* result) {
  const int64_t outer = loops.outer(), wanted = tasks_for(loops.cost(), pool);
  const int64_t down = parts(outer, 1, wanted), across = parts(loops.inner(), 64, (wanted + down - 1) / down);
  static const auto take = BEST(take<T>);
  share(pool, down * across, [&](int64_t task) {
    take(loops, part(task / across, down, outer, 1), part(task % across, across, loops.inner(), 64),
         static_cast<const typename T::Item*>(x), static_cast<const typename T::Index*>(index),
         static_cast<typename T::Item*>(result));
  });
}

struct Wide { uint64_t halves[2]; };

// Indices outside name the first or the last.
ffi::Error take(ffi::ThreadPool pool, Any x, Any index, AnyResult result, Integers sizes, Integers steps,
                Integers places, Integers limit) {
  const Loops loops{sizes, steps, places, limit[0]};
  const auto with = [&](auto item) {
    by_index(index.element_type(), [&](auto integer) {
      take_items<Types<decltype(item), decltype(integer)>>(pool, loops, x.untyped_data(), index.untyped_data(),
                                                           result->untyped_data());
    });
  };
  switch (ffi::ByteWidth(x.element_type())) {
    case 1: with(uint8_t{}); break;
    case 2: with(uint16_t{}); break;
    case 4: with(uint32_t{}); break;
    case 8: with(uint64_t{}); break;
    default: with(Wide{});
  }
  return ffi::Error::Success();
}

// --- adding ----------------------------------------------------------------------------------

// Adds to x. Indices outside are left out. Whatever the number of threads, elements are added in order.
ffi::Error add_items(ffi::ThreadPool& pool, const Loops& loops, Any index, Any updates, AnyResult x) {
  const int64_t outer = loops.outer();
  const int64_t apart = loops.apart(), wanted = parts(outer, 1, tasks_for(loops.cost(), pool));
  const int64_t tasks = std::min(wanted, std::max<int64_t>(apart, 4 * pool.num_threads()));  // more, to look for signals
  return by_type(x->element_type(), [&](auto number) {
    by_index(index.element_type(), [&](auto integer) {
      using T = Types<decltype(number), decltype(integer)>;
      static const auto add = BEST(add<T>);
      const auto with = [&](Range rows) {
        add(loops, rows, static_cast<typename T::Item*>(x->untyped_data()),
            static_cast<const typename T::Index*>(index.untyped_data()),
            static_cast<const typename T::Item*>(updates.untyped_data()));
      };
      // Parts of the array that loops keep to. Where there are none one thread does it all: that each looks at
      // the whole index and adds to its own rows takes longer.
      if (apart >= tasks)
        share(pool, tasks, [&](int64_t i) { with(part(i, tasks, outer, outer / apart)); });
      else
        with({0, outer});
    });
  });
}

// The result lies over x.
ffi::Error add(ffi::ThreadPool pool, Any, Any index, Any updates, AnyResult x, Integers sizes, Integers steps,
               Integers places, Integers limit) {
  return add_items(pool, {sizes, steps, places, limit[0]}, index, updates, x);
}

ffi::Error add_to_zeros(ffi::ThreadPool pool, Any index, Any updates, AnyResult x, Integers sizes, Integers steps,
                        Integers places, Integers limit) {
  const int64_t size = x->size_bytes(), tasks = parts(size, 64, tasks_for(WIPE * x->element_count(), pool));
  share(pool, tasks, [&](int64_t i) {
    const Range bytes = part(i, tasks, size, 64);
    std::memset(static_cast<char*>(x->untyped_data()) + bytes.from, 0, bytes.to - bytes.from);
  });
  return add_items(pool, {sizes, steps, places, limit[0]}, index, updates, x);
}

}  // namespace

#define LOOPS Attr<Integers>("sizes").Attr<Integers>("steps").Attr<Integers>("places").Attr<Integers>("limit")

XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_take, guarded(take),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<Any>().Ret<Any>().LOOPS);
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_add, guarded(add),
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<Any>().Arg<Any>().Ret<Any>().LOOPS);
XLA_FFI_DEFINE_HANDLER_SYMBOL(ftorch_add_to_zeros, guarded(add_to_zeros),
                              ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<Any>().Ret<Any>().LOOPS);
