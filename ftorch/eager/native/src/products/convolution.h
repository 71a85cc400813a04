// What a convolution is made of: which elements of the images meet which taps of the kernel.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

// A tap of a kernel: its index in the window, and what it adds to the place of a pixel.
struct Tap {
  int64_t index, offset[3];
};

// Of the results of a convolution of spread images (a transposed convolution), those that the same taps
// meet: every `spread`th from `start` on, `grid` of them.
struct Phase {
  int64_t start[3], grid[3];
  std::vector<Tap> taps;
  bool whole;  // all of the results
};

inline int64_t product(const int64_t* v) { return v[0] * v[1] * v[2]; }

// Cross-correlation over three dimensions of (images, groups * channels, *extent).
struct Convolution {
  int64_t images, groups, channels, outputs;  // channels and outputs of a group
  int64_t by_output, by_channel, by_group;    // steps in the weight
  bool flipped;                               // the weight's windows are read backwards
  int64_t extent[3], out[3], window[3], stride[3], low[3], dilation[3], spread[3];
  int64_t before[3], padded[3];  // zeros in front of the images, extent with the zeros around them
  int64_t plane[3];              // that extent in strides
  std::vector<Phase> phases;

  // sizes: the fields up to `flipped`, in their order; the others have three numbers each.
  template <typename Integers>
  Convolution(Integers sizes, Integers extent, Integers out, Integers window, Integers stride, Integers low,
              Integers dilation, Integers spread)
      : images(sizes[0]), groups(sizes[1]), channels(sizes[2]), outputs(sizes[3]), by_output(sizes[4]),
        by_channel(sizes[5]), by_group(sizes[6]), flipped(sizes[7]) {
    for (int d = 0; d < 3; d++) {
      this->extent[d] = extent[d], this->out[d] = out[d], this->window[d] = window[d];
      this->stride[d] = stride[d], this->low[d] = low[d], this->dilation[d] = dilation[d];
      this->spread[d] = spread[d];
    }
    for (int64_t z = 0; z < spread[0]; z++)
      for (int64_t y = 0; y < spread[1]; y++)
        for (int64_t x = 0; x < spread[2]; x++) add_phase({z, y, x});
    for (int d = 0; d < 3; d++) {
      int64_t least = 0, most = extent[d] - 1;
      for (const Phase& phase : phases)
        for (const Tap& tap : phase.taps) {
          least = std::min(least, tap.offset[d]);
          most = std::max(most, tap.offset[d] + (phase.grid[d] - 1) * stride[d]);
        }
      before[d] = -least, padded[d] = most - least + 1, plane[d] = (padded[d] + stride[d] - 1) / stride[d];
    }
  }

  int64_t image() const { return product(extent); }
  int64_t padded_image() const { return product(padded); }
  int64_t pixels() const { return product(out); }
  bool pads() const { return padded_image() != image(); }
  // The same images as planes, one for each place in a stride, and elements behind that may be read.
  int64_t planes() const { return product(stride) * product(plane) + 64; }
  int64_t in_planes(int64_t z, int64_t y, int64_t x) const {
    const int64_t which = (z % stride[0] * stride[1] + y % stride[1]) * stride[2] + x % stride[2];
    return ((which * plane[0] + z / stride[0]) * plane[1] + y / stride[1]) * plane[2] + x / stride[2];
  }
  std::vector<int64_t> taps_in_planes(const Phase& phase) const {  // of each channel
    std::vector<int64_t> found;
    for (int64_t i = 0; i < channels; i++)
      for (const Tap& tap : phase.taps)
        found.push_back(i * planes() + in_planes(tap.offset[0] + before[0], tap.offset[1] + before[1], tap.offset[2] + before[2]));
    return found;
  }
  // How many elements of a plane lie from a grid's first to its last.
  int64_t run(const int64_t* grid) const {
    return ((grid[0] - 1) * plane[1] + grid[1] - 1) * plane[2] + grid[2];
  }
  bool has_few_outputs() const { return outputs < 4; }  // columns that would not fill a vector

  // What a phase's pixels, and its channels' taps, add to the place in the padded images.
  std::vector<int64_t> of_pixels(const Phase& phase) const {
    return places(phase.grid, stride, padded, {0, 0, 0});
  }
  std::vector<int64_t> of_taps(const Phase& phase) const {
    std::vector<int64_t> found;
    for (int64_t i = 0; i < channels; i++)
      for (const Tap& tap : phase.taps)
        found.push_back(((i * padded[0] + tap.offset[0] + before[0]) * padded[1] + tap.offset[1] + before[1]) *
                            padded[2] + tap.offset[2] + before[2]);
    return found;
  }
  // Where a phase's pixels lie in the results.
  std::vector<int64_t> of_results(const Phase& phase) const {
    return places(phase.grid, spread, out, {phase.start[0], phase.start[1], phase.start[2]});
  }

 private:
  static std::vector<int64_t> places(const int64_t* grid, const int64_t* step, const int64_t* whole,
                                     std::array<int64_t, 3> start) {
    std::vector<int64_t> found;
    found.reserve(grid[0] * grid[1] * grid[2]);
    for (int64_t z = 0; z < grid[0]; z++)
      for (int64_t y = 0; y < grid[1]; y++)
        for (int64_t x = 0; x < grid[2]; x++)
          found.push_back(((start[0] + z * step[0]) * whole[1] + start[1] + y * step[1]) * whole[2] + start[2] +
                          x * step[2]);
    return found;
  }

  void add_phase(std::array<int64_t, 3> start) {
    Phase phase;
    phase.whole = product(spread) == 1;
    for (int d = 0; d < 3; d++) {
      phase.start[d] = start[d];
      phase.grid[d] = (out[d] - start[d] + spread[d] - 1) / spread[d];
      if (phase.grid[d] <= 0) return;
    }
    const int64_t all = product(window);
    for (int64_t i = 0; i < all; i++) {
      const int64_t at[3] = {i / (window[1] * window[2]), i / window[2] % window[1], i % window[2]};
      Tap tap{flipped ? all - 1 - i : i, {}};
      bool meets = true;
      for (int d = 0; d < 3; d++) {
        const int64_t place = start[d] * stride[d] + at[d] * dilation[d] - low[d];
        meets = meets && place % spread[d] == 0;
        tap.offset[d] = place / spread[d];
      }
      if (meets) phase.taps.push_back(tap);
    }
    phases.push_back(std::move(phase));
  }
};
