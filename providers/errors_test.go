package providers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
)

func TestClassOf(t *testing.T) {
	auth := providers.Errorf(providers.Auth, "log in", "refused")
	for _, c := range []struct {
		name string
		err  error
		want providers.Class
	}{
		{"classed", auth, providers.Auth},
		{"classed and wrapped", fmt.Errorf("start run: %w", auth), providers.Auth},
		{"outermost class wins", providers.Errorf(providers.Gone, "look", "%w", auth), providers.Gone},
		{"class before deadline", providers.Errorf(providers.Transient, "look", "%w", context.DeadlineExceeded),
			providers.Transient},
		{"deadline", fmt.Errorf("dial: %w", context.DeadlineExceeded), providers.Timeout},
		{"canceled", context.Canceled, providers.Transient},
		{"anything", io.ErrUnexpectedEOF, providers.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := providers.ClassOf(c.err); got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestErrorf(t *testing.T) {
	err := providers.Errorf(providers.Timeout, "set power of m-1 to off", "no answer: %w", context.DeadlineExceeded)
	if got, want := err.Error(), "set power of m-1 to off: no answer in time"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal("got an error without its cause")
	}
}

func TestToken(t *testing.T) {
	op := providers.Op{RunID: "r-1", Step: "install", Attempt: 2, Epoch: 3}
	if got, want := op.Token(), "r-1-install-2"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	next := op
	next.Epoch++
	if next.Token() != op.Token() {
		t.Fatal("got another token for the next leader of an attempt")
	}
}
