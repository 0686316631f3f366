// Nothing of kernels/common/math.cuh is needed by kernels that tests run on the host.
#pragma once
