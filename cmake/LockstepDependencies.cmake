# Libraries that the system must supply. `./lab setup` installs them on Debian and Ubuntu; backends find theirs
# themselves.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(GTest REQUIRED)
