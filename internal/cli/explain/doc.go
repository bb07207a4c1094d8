// Package explain holds the comments of the .proto files, which compiled descriptors do not
// contain. It owns comments.txt, which a test compares with those files and writes with
// UPDATE_GOLDEN=1.
package explain
