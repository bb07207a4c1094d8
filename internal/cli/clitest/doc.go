// Package clitest runs command lines in tests, against a fake peer with a few resources of each
// kind that records the requests which it gets.
//
// It must not check more than exit codes and texts: the tests of the commands do.
package clitest
