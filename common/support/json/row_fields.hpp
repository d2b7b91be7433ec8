// Reads the fields of a row of results again, for the tables that programs print.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "common/support/json/results.hpp"

namespace lockstep {

inline const Row::Value* find(const Row& row, std::string_view name) {
  for (const Row::Field& field : row.fields())
    if (field.name == name) return &field.value;
  return nullptr;
}

/// Returns a number of the row, real or signed and whole; NaN if it has none of that name.
inline double number(const Row& row, std::string_view name) {
  const Row::Value* value = find(row, name);
  if (!value) return std::nan("");
  if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(value);
  return real ? *real : std::nan("");
}

/// Returns a text of the row; empty if it has none of that name.
inline std::string text(const Row& row, std::string_view name) {
  const Row::Value* value = find(row, name);
  return value ? std::get<std::string>(*value) : "";
}

}  // namespace lockstep
