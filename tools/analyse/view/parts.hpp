// The page's own text: view.html, view.css and the scripts, as CMake put them into the program.
#pragma once

namespace lockstep::view {

extern const char* const kHtml;
extern const char* const kCss;
extern const char* const kData;
extern const char* const kDraw;
extern const char* const kPanels;
extern const char* const kSave;
extern const char* const kPlay;

}  // namespace lockstep::view
