package app

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// MayBeEmpty is the annotation of a flag that takes an empty value, because "" clears something or
// selects all.
const MayBeEmpty = "holdfast_may_be_empty"

// AllowEmpty lets flags take an empty value.
func AllowEmpty(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		_ = f.SetAnnotation(name, MayBeEmpty, nil) // it fails only for a flag that does not exist
	}
}

// CheckFlags makes flags, and those of the commands below one, refuse an empty value, which is
// usually a variable of a shell that is not set, and a second one, of which the first would be
// lost. While off is true, they take all: a shell completes a line that is not complete.
func CheckFlags(off *bool, cmd *cobra.Command, sets ...*pflag.FlagSet) {
	for _, set := range sets {
		set.VisitAll(func(f *pflag.Flag) {
			_, empty := f.Annotations[MayBeEmpty]
			switch v := f.Value.(type) {
			case *onceValue, *manyValue: // of the parent
			case pflag.SliceValue:
				f.Value = &manyValue{Value: f.Value, SliceValue: v, empty: empty, off: off}
			default:
				f.Value = &onceValue{Value: f.Value, empty: empty, off: off}
			}
		})
	}
	for _, sub := range cmd.Commands() {
		CheckFlags(off, sub, sub.Flags(), sub.PersistentFlags())
	}
}

var errEmpty = errors.New("is empty: give a value, or leave the flag out")

// onceValue is the value of a flag that is given at most once.
type onceValue struct {
	pflag.Value

	empty, given bool
	off          *bool
}

// Set implements pflag.Value.
func (v *onceValue) Set(text string) error {
	switch {
	case *v.off:
	case v.given:
		return errors.New("is given twice: give it once")
	case !v.empty && strings.TrimSpace(text) == "":
		return errEmpty
	}
	if !*v.off {
		if err := checkNumber(v.Type(), text); err != nil {
			return err
		}
	}
	v.given = true
	return v.Value.Set(text)
}

// manyValue is the value of a flag that may be repeated.
type manyValue struct {
	pflag.Value
	pflag.SliceValue

	empty bool
	off   *bool
}

// Set implements pflag.Value.
func (v *manyValue) Set(text string) error {
	switch {
	case *v.off:
	case !v.empty && strings.TrimSpace(text) == "":
		return errEmpty
	case v.Type() == "stringSlice" && text != "" && slices.ContainsFunc(strings.Split(text, ","), blank):
		return errors.New("has an empty element: write one comma between two values, and none at an end")
	}
	return v.Value.Set(text)
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// checkNumber refuses a whole number that reads differently to a person and to strconv, which takes
// 010 for 8 and 0x10 for 16.
func checkNumber(kind, text string) error {
	if !strings.HasPrefix(kind, "int") && !strings.HasPrefix(kind, "uint") {
		return nil
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil || strconv.FormatInt(n, 10) == text {
		return nil // the flag's own error is better
	}
	decimal, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		decimal = n
	}
	return fmt.Errorf("is not written as a decimal number: write %d", decimal)
}
