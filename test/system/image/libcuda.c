/* Stands in for NVIDIA's driver where there is none: it has the one function of it that ONNX Runtime links to. CUDA's
   own runtime looks for the others when it is first used, and says what it makes of a driver without them. */
int cuTensorMapEncodeTiled(void) { return 100; /* CUDA_ERROR_NO_DEVICE */ }
