// Shared by the tests of the model: one rank, and batches and values by the formulas of make_golden.py.
#pragma once

#include <cmath>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/gpt/model/serial.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/batches.hpp"

namespace lockstep::model_tests {

inline Values run_one(const Program& program, bool phantom = false) {
  RunOptions options;
  options.phantom = phantom;
  options.threads = 1;  // the arrays are small
  return run(options, program).check().values.at(0);
}

/// Returns `config` with Llama's block; with `kv_heads` = 0, as many key-value heads as heads.
inline GptConfig llama(GptConfig config, std::size_t kv_heads, std::size_t ffn, float rope_base) {
  config.architecture = {NormKind::rms_norm, PositionKind::rotary, MlpKind::swiglu, false, kv_heads, ffn, rope_base};
  return config;
}

// Tokens and targets by the formulas of make_golden.py; target 5 is masked.
inline Batch formula_batch(Rank me, std::size_t sequences, std::size_t length, std::size_t vocabulary,
                           bool ignore_one = true) {
  return batch_by_formula(me, sequences, length, vocabulary, ignore_one ? 5 : -1);
}

// Values by the formula of make_golden.py.
inline void formula_values(Rank me, Gpt& gpt) {
  for (std::size_t t = 0; t < gpt.parameters().list.size(); ++t) {
    const Parameter& parameter = gpt.parameters().list[t];
    const bool norm_weight = parameter.name.find("norm") != std::string::npos && parameter.name.ends_with("weight");
    std::vector<float> values(parameter.size);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double u = static_cast<double>((7919 * i + 104729 * t) % 2003) / 2003 - 0.5;
      values[i] = static_cast<float>(norm_weight ? 1 + 0.25 * u : 0.5 * u);
    }
    upload(me, gpt.parameters().value(t), values);
  }
}

/// The values of a file of common/gpt/model/golden, whose lines are: key, how many values, the values.
inline std::map<std::string, std::vector<double>> read_golden(const std::string& path, const std::string& prefix = "") {
  std::map<std::string, std::vector<double>> golden;
  std::ifstream file(path);
  std::string key;
  for (std::size_t count = 0; file >> key >> count;) {
    std::vector<double>& values = golden[prefix + key];
    values.resize(count);
    for (double& value : values) file >> value;
  }
  return golden;
}

inline double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

inline float factor_of(std::size_t counted) { return 1.0f / static_cast<float>(counted); }

}  // namespace lockstep::model_tests
