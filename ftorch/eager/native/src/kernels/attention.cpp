// Scaled dot product attention and its gradient, each as one custom call, a head at a time.

#include <cstring>
#include <limits>
#include <string>

#include "calls.h"
#include "operands.h"
#include "threads/threads.h"

namespace {

using Floats = ffi::Buffer<ffi::F32>;
using Result = ffi::Result<Floats>;

struct Heads {  // all of one shape
  int64_t batch, heads, queries, keys, width, values, causal;
  float scale;
};

struct Rows {  // of a head, each dense
  const float* data;
  int64_t step;
};

#define KERNELS "kernels/attention.inc"
#include "vectors/instructions.inc"

const auto attend = BEST(attend);
const auto attend_gradient = BEST(attend_gradient);

Heads heads_of(Integers sizes, float scale) {
  return {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], scale};
}

// Steps between batches, heads and rows.
Rows head(const Floats& x, Integers steps, int64_t batch, int64_t head) {
  return {x.typed_data() + batch * steps[0] + head * steps[1], steps[2]};
}

// use(batch, head) for all heads, `products` of them each of the size of the scores.
template <typename Use>
void each_head(const Heads& h, double products, ffi::ThreadPool& pool, const Use& use) {
  const int64_t all = h.batch * h.heads;
  const double one = products * h.queries * h.keys * (h.width + 16.0);  // and what an exponential costs
  const int64_t count = std::min(all, tasks_for(all * one, pool));
  share(pool, count, [&](int64_t task) {
    const Range own = part(task, count, all, 1);
    for (int64_t i = own.from; i < own.to; i++) use(i / h.heads, i % h.heads);
  });
}

ffi::Error attention(ffi::ThreadPool pool, Floats q, Floats k, Floats v, Result out, Integers sizes, Integers q_steps,
                     Integers k_steps, Integers v_steps, Integers out_steps, float scale) {
  const Heads h = heads_of(sizes, scale);
  each_head(h, 4, pool, [&](int64_t b, int64_t n) {
    attend(h, head(q, q_steps, b, n), head(k, k_steps, b, n), head(v, v_steps, b, n),
                   out->typed_data() + b * out_steps[0] + n * out_steps[1], out_steps[2]);
  });
  return ffi::Error::Success();
}

ffi::Error attention_gradient(ffi::ThreadPool pool, Floats grad, Floats q, Floats k, Floats v, Result d_q, Result d_k,
                              Result d_v, Integers sizes, Integers grad_steps, Integers q_steps, Integers k_steps,
                              Integers v_steps, float scale) {
  const Heads h = heads_of(sizes, scale);
  each_head(h, 10, pool, [&](int64_t b, int64_t n) {
    const int64_t i = b * h.heads + n;
    attend_gradient(h, head(grad, grad_steps, b, n), head(q, q_steps, b, n), head(k, k_steps, b, n),
                            head(v, v_steps, b, n), d_q->typed_data() + i * h.queries * h.width,
                            d_k->typed_data() + i * h.keys * h.width, d_v->typed_data() + i * h.keys * h.values);
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_attention, guarded(attention),
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Floats>().Arg<Floats>().Ret<Floats>()
        .Attr<Integers>("sizes").Attr<Integers>("query").Attr<Integers>("key").Attr<Integers>("value")
        .Attr<Integers>("out").Attr<float>("scale"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    ftorch_attention_gradient, guarded(attention_gradient),
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Floats>().Arg<Floats>().Arg<Floats>().Arg<Floats>()
        .Ret<Floats>().Ret<Floats>().Ret<Floats>().Attr<Integers>("sizes").Attr<Integers>("grad")
        .Attr<Integers>("query").Attr<Integers>("key").Attr<Integers>("value").Attr<float>("scale"));
