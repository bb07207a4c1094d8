package output

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/expression"
	"github.com/holdfast-metal/holdfast/internal/misfit"
)

// check returns an error if an expression or a column names a field that documents do not have. The
// documents of a list are under its key.
func (o *Flags) check(of expression.Shape, list string) error {
	for _, c := range o.custom {
		if err := c.Check(of); err != nil {
			return app.Usagef("--output: %s", err)
		}
	}
	if o.expr == nil {
		return nil
	}
	if list != "" {
		of = listShape(list, of)
	}
	if err := o.expr.Check(of); err != nil {
		return app.Usagef("--output: %s", err)
	}
	return nil
}

// Shapes returns the shapes of the documents that a command may print of a kind: one, or a list.
func Shapes[M proto.Message](k Kind[M]) []expression.Shape {
	of := shapeOf[M]()
	if k.List == "" {
		return []expression.Shape{of}
	}
	return []expression.Shape{of, listShape(k.List, of)}
}

// before returns a run of a command that checks --output first. A refusal after a change would hide
// its result, such as a new token.
func (o *Flags) before(
	run func(*cobra.Command, []string) error, shapes []expression.Shape,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		var first error
		for _, of := range shapes {
			err := o.check(of, "")
			if err == nil {
				return run(cmd, args)
			}
			first = cmp.Or(first, err)
		}
		return first
	}
}

// listShape returns the shape of a document with one key.
func listShape(list string, of expression.Shape) expression.Shape {
	return expression.Shape{Field: func(name string) (expression.Shape, error) {
		if name != list {
			return expression.Shape{}, fmt.Errorf("a list has no field %q: its only key is %s: such as {.%s[*]}",
				name, list, list)
		}
		return of, nil
	}}
}

// shapeOf returns the shape of a message of the API.
func shapeOf[M proto.Message]() expression.Shape {
	var none M
	md := none.ProtoReflect().Descriptor()
	return messageShape(md, "a "+strings.ToLower(string(md.Name())))
}

// messageShape returns the shape of a message. is names it in errors.
func messageShape(md protoreflect.MessageDescriptor, is string) expression.Shape {
	if isValue(md) {
		return expression.Shape{}
	}
	return expression.Shape{Field: func(name string) (expression.Shape, error) {
		fd := md.Fields().ByName(protoreflect.Name(name))
		switch {
		case fd == nil && md.Name() == "LogChunk" && name == "text": // added by run logs
			return expression.Shape{}, nil
		case fd == nil:
			return expression.Shape{}, fmt.Errorf("%s has no field %q%s", is, name,
				misfit.Unknown(name, misfit.FieldNames(md)))
		case fd.IsMap():
			return expression.Shape{Open: true}, nil
		case fd.Message() == nil:
			return expression.Shape{}, nil
		}
		return messageShape(fd.Message(), name), nil
	}}
}

// DocumentShape returns the shape of a document that is no message of the API, from the JSON names
// of its Go type. is names it in errors.
func DocumentShape[D any](is string) expression.Shape { return goShape(reflect.TypeFor[D](), is) }

func goShape(t reflect.Type, is string) expression.Shape {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return expression.Shape{Open: t.Kind() == reflect.Map}
	}
	types := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		types[name] = f.Type
	}
	return expression.Shape{Field: func(name string) (expression.Shape, error) {
		of, ok := types[name]
		if !ok {
			return expression.Shape{}, fmt.Errorf("%s has no field %q%s", is, name,
				misfit.Unknown(name, slices.Sorted(maps.Keys(types))))
		}
		return goShape(of, name), nil
	}}
}

// isValue reports whether JSON writes a message as one value.
func isValue(md protoreflect.MessageDescriptor) bool {
	return md.FullName().Parent() == "google.protobuf"
}
