// Figures of calculators, drawn by a script of bench/plots with matplotlib.
#pragma once

#include <functional>
#include <string>

namespace lockstep::bench {

/// Throws Error(usage) unless a figure can be written there: the name ends in .svg, .pdf or .png. "" is no figure.
void check_plot(const std::string& path);

/// bench/plots/SCRIPT draws the file that `write` writes. Throws Error(usage) where no python3 has matplotlib.
void plot(const char* script, const std::string& path, const std::function<void(const std::string& data)>& write);

}  // namespace lockstep::bench
