// Everything a user of the library includes.
#pragma once

#include "epifuse/dim.h"
#include "epifuse/dtype.h"
#include "epifuse/error.h"
#include "epifuse/graph.h"
#include "epifuse/pointer_arrays.h"
#include "epifuse/program.h"
#include "epifuse/tensor.h"
