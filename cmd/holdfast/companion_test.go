package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindCompanion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if got, err := findCompanion(); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("without the program: got %q, %v, want an error with the remedy", got, err)
	}
	want := filepath.Join(dir, companion)
	if err := os.WriteFile(want, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := findCompanion(); got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
