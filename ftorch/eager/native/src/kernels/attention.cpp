// Scaled dot product attention and its gradient, each as one custom call, a head at a time.

#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "calls.h"
#include "operands.h"
#include "products/pairs.h"
#include "threads/threads.h"

namespace {

struct Heads {  // all of one shape; several of queries may share one of keys and values
  int64_t batch, heads, queries, keys, width, values, causal, shared;
  float scale;
};

template <typename T>
struct Rows {  // of a head, each dense
  const T* data;
  int64_t step;
};

template <typename T>
Rows<uint16_t> bits(Rows<T> x) { return {reinterpret_cast<const uint16_t*>(x.data), x.step}; }

template <typename Use>
void by_mask(ffi::DataType type, const Use& use) {
  switch (type) {
    case ffi::PRED: use(bool{}); break;
    case ffi::F16: use(Half{}); break;
    case ffi::BF16: use(Brain{}); break;
    default: use(float{});
  }
}

struct KeyMask {  // of a head, or none
  const void* data = nullptr;
  ffi::DataType type = ffi::F32;
  int64_t heads = 0, down = 0, across = 0;

  // Elements further on.
  KeyMask behind(int64_t count) const {
    KeyMask found = *this;
    if (data) by_mask(type, [&](auto one) { found.data = static_cast<const decltype(one)*>(data) + count; });
    return found;
  }
  KeyMask head(int64_t i) const { return behind(i * heads); }
};

template <typename T>
struct Group {  // heads of queries that share one of keys; gradients are dense
  Heads heads;
  int64_t count;
  Rows<T> grad, q, k, v;
  int64_t grad_head, q_head;
  KeyMask mask;
  T *d_q, *d_k, *d_v;
  float* d_mask;
};

#define KERNELS "kernels/attention.inc"
#include "vectors/instructions.inc"

// The functions of the best set for a type.
template <typename T>
struct Best {
  using Attend = void (*)(const Heads&, Rows<T>, Rows<T>, Rows<T>, const KeyMask&, T*, int64_t);
  using Gradients = void (*)(const Group<T>&);
  static inline const Attend attend = BEST(attend<T>);
  static inline const Gradients gradients = BEST(attend_gradients<T>);
};

Heads heads_of(Integers sizes, float scale) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], scale};
}

// Steps between batches, heads and rows; the first element lies `offset` behind the array's.
template <typename T>
Rows<T> head(const Any& x, Integers steps, int64_t offset, int64_t batch, int64_t head) {
  return {static_cast<const T*>(x.untyped_data()) + offset + batch * steps[0] + head * steps[1], steps[2]};
}

// What comes behind the three or four operands: a mask, if there are steps of it (between batches, heads, rows and columns),
// how many of the keys there are, and as the last one how far behind their arrays' beginnings the operands and the mask lie, if
// they are parts.
struct Rest {
  KeyMask mask;  // of the first head
  int64_t offsets[5] = {}, keys = -1;

  Rest(ffi::RemainingArgs& given, Integers steps, int64_t operands, bool counted = false) {
    const bool masked = steps.size() > 0;
    if (counted) {
      const auto found = given.get<Any>(masked);
      if (found.has_value()) keys = *static_cast<const int64_t*>(found->untyped_data());
    }
    if (given.size() > masked + counted) {
      const auto found = given.get<Any>(masked + counted);
      if (found.has_value()) std::copy_n(static_cast<const int64_t*>(found->untyped_data()), operands + masked, offsets);
    }
    if (!masked) return;
    const auto found = given.get<Any>(0);
    if (!found.has_value()) return;
    mask = {found->untyped_data(), found->element_type(), steps[1], steps[2], steps[3]};
    mask = mask.behind(offsets[operands]);
  }
};

// use(a number of the type), for the types that there are.
template <typename Use>
ffi::Error by_number(ffi::DataType type, const Use& use) {
  switch (type) {
    case ffi::F32: use(float{}); break;
    case ffi::F16: use(Half{}); break;
    case ffi::BF16: use(Brain{}); break;
    default: return ffi::Error::InvalidArgument("a dtype that ftorch's attention does not have");
  }
  return ffi::Error::Success();
}

// use(i) for `all` tasks, `products` of them each of the size of `heads` heads' scores.
template <typename Use>
void each_task(const Heads& h, int64_t all, double products, int64_t heads, ffi::ThreadPool& pool, const Use& use) {
  const double one = products * heads * h.queries * h.keys * (h.width + 16.0);  // and what an exponential costs
  const int64_t count = std::min(all, tasks_for(all * one, pool));
  share(pool, count, [&](int64_t task) {
    const Range own = part(task, count, all, 1);
    for (int64_t i = own.from; i < own.to; i++) use(i);
  });
}

ffi::Error attention(ffi::ThreadPool pool, Any q, Any k, Any v, ffi::RemainingArgs rest, AnyResult out, Integers sizes,
                     Integers q_steps, Integers k_steps, Integers v_steps, Integers mask_steps, Integers out_steps,
                     float scale) {
  Heads h = heads_of(sizes, scale);
  const Rest more(rest, mask_steps, 3, sizes[8]);
  if (more.keys >= 0) h.keys = std::min(h.keys, more.keys);
  const KeyMask mask = more.mask;
  const int64_t* at = more.offsets;
  return by_number(q.element_type(), [&](auto one) {
    using T = decltype(one);
    T* to = static_cast<T*>(out->untyped_data());
    // A query of each head that shares a head of keys: they are rows of one, and the keys are read once.
    const bool joined = h.queries == 1 && h.shared > 1 && !h.causal;
    Heads own = h;
    if (joined) own.queries = h.shared;
    const int64_t count = joined ? h.heads / h.shared : h.heads, heads = joined ? h.shared : 1;
    each_task(own, h.batch * count, 4, 1, pool, [&](int64_t i) {
      const int64_t b = i / count, n = i % count * heads;
      Rows<T> queries = head<T>(q, q_steps, at[0], b, n);
      KeyMask added = mask.behind(mask.data ? b * mask_steps[0] + n * mask_steps[1] : 0);
      int64_t step = out_steps[2];
      if (joined) queries.step = q_steps[1], added.down = added.heads, step = out_steps[1];
      Best<T>::attend(own, queries, head<T>(k, k_steps, at[1], b, n / h.shared), head<T>(v, v_steps, at[2], b, n / h.shared),
                      added, to + b * out_steps[0] + n * out_steps[1], step);
    });
  });
}

struct Gradients { AnyResult *q, *k, *v, *mask; };

ffi::Error each_gradient(ffi::ThreadPool& pool, const Any& grad, const Any& q, const Any& k, const Any& v,
                         ffi::RemainingArgs& rest, const Gradients& to, const Heads& h, Integers grad_steps, Integers q_steps,
                         Integers k_steps, Integers v_steps, Integers mask_steps) {
  const Rest more(rest, mask_steps, 4);
  const KeyMask mask = more.mask;
  const int64_t* begin = more.offsets;
  const int64_t groups = h.heads / h.shared;
  return by_number(q.element_type(), [&](auto one) {
    using T = decltype(one);
    const auto at = [](AnyResult* x, int64_t place) { return x ? static_cast<T*>((*x)->untyped_data()) + place : nullptr; };
    each_task(h, h.batch * groups, to.mask ? 5 : 10, h.shared, pool, [&](int64_t i) {
      const int64_t b = i / groups, n = i % groups * h.shared, first = i * h.shared;
      Best<T>::gradients(Group<T>{
          h, h.shared, head<T>(grad, grad_steps, begin[0], b, n), head<T>(q, q_steps, begin[1], b, n),
          head<T>(k, k_steps, begin[2], b, n / h.shared), head<T>(v, v_steps, begin[3], b, n / h.shared), grad_steps[1],
          q_steps[1],
          mask.behind(mask.data ? b * mask_steps[0] + n * mask_steps[1] : 0), at(to.q, first * h.queries * h.width),
          at(to.k, i * h.keys * h.width), at(to.v, i * h.keys * h.values),
          to.mask ? static_cast<float*>((*to.mask)->untyped_data()) + first * h.queries * h.keys : nullptr});
    });
  });
}

ffi::Error attention_gradient(ffi::ThreadPool pool, Any grad, Any q, Any k, Any v, ffi::RemainingArgs rest, AnyResult d_q,
                              AnyResult d_k, AnyResult d_v, Integers sizes, Integers grad_steps, Integers q_steps,
                              Integers k_steps, Integers v_steps, Integers mask_steps, float scale) {
  return each_gradient(pool, grad, q, k, v, rest, {&d_q, &d_k, &d_v, nullptr}, heads_of(sizes, scale), grad_steps, q_steps,
                       k_steps, v_steps, mask_steps);
}

// Of what is added to the scores: (batch, heads, queries, keys).
ffi::Error attention_mask_gradient(ffi::ThreadPool pool, Any grad, Any q, Any k, Any v, ffi::RemainingArgs rest,
                                   AnyResult d_mask, Integers sizes, Integers grad_steps, Integers q_steps, Integers k_steps,
                                   Integers v_steps, Integers mask_steps, float scale) {
  return each_gradient(pool, grad, q, k, v, rest, {nullptr, nullptr, nullptr, &d_mask}, heads_of(sizes, scale), grad_steps,
                       q_steps, k_steps, v_steps, mask_steps);
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_attention, guarded(attention),
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<Any>().Arg<Any>().RemainingArgs().Ret<Any>()
        .Attr<Integers>("sizes").Attr<Integers>("query").Attr<Integers>("key").Attr<Integers>("value")
        .Attr<Integers>("mask").Attr<Integers>("out").Attr<float>("scale"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_attention_gradient, guarded(attention_gradient),
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<Any>().Arg<Any>().Arg<Any>().RemainingArgs()
        .Ret<Any>().Ret<Any>().Ret<Any>().Attr<Integers>("sizes").Attr<Integers>("grad").Attr<Integers>("query")
        .Attr<Integers>("key").Attr<Integers>("value").Attr<Integers>("mask").Attr<float>("scale"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_attention_mask_gradient, guarded(attention_mask_gradient),
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Any>().Arg<Any>().Arg<Any>().Arg<Any>().RemainingArgs().Ret<Any>()
        .Attr<Integers>("sizes").Attr<Integers>("grad").Attr<Integers>("query").Attr<Integers>("key")
        .Attr<Integers>("value").Attr<Integers>("mask").Attr<float>("scale"));
