// Package explain knows what the API's messages and fields mean: the comments of the .proto files,
// which compiled descriptors have not. It owns comments.txt, which a test holds against those files
// and writes with UPDATE_GOLDEN=1.
package explain
