// The library's version, for the preprocessor. CMakeLists.txt reads it from here.
#ifndef LAMELLA_VERSION_H_
#define LAMELLA_VERSION_H_

#define LAMELLA_VERSION_MAJOR 0
#define LAMELLA_VERSION_MINOR 1
#define LAMELLA_VERSION_PATCH 0

/// One number to compare: 1.2.3 is 1002003.
#define LAMELLA_VERSION \
  (LAMELLA_VERSION_MAJOR * 1000000 + LAMELLA_VERSION_MINOR * 1000 + LAMELLA_VERSION_PATCH)

#endif  // LAMELLA_VERSION_H_
