# What the system must supply. `./lab setup` installs it on Debian and Ubuntu; a backend looks for its own in its folder.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
