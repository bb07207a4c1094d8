package output

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/fields"
)

// completeFields completes --sort-by and the last word of --filter from the fields of a resource.
// No cluster is contacted.
func completeFields(cmd *cobra.Command, md protoreflect.MessageDescriptor) {
	complete := func(flag string, values func(part string) []string, directive cobra.ShellCompDirective) {
		if cmd.Flags().Lookup(flag) == nil {
			return
		}
		// It fails only for a flag that does not exist.
		_ = cmd.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, part string,
		) ([]cobra.Completion, cobra.ShellCompDirective) {
			return values(part), directive
		})
	}
	complete("sort-by", func(part string) []string {
		_, reverse := strings.CutPrefix(part, "-")
		return app.Prefixed(map[bool]string{true: "-"}[reverse], fields.Sortable(md))
	}, cobra.ShellCompDirectiveNoFileComp)
	complete("filter", func(part string) []string { return FilterWords(md, part) },
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
}

// FilterWords returns a filter with each possible next word: a field, a comparison, a value, or AND
// and OR.
func FilterWords(md protoreflect.MessageDescriptor, part string) []string {
	done := part[:strings.LastIndexAny(part, " (")+1]
	words := strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(done))
	last := func(n int) string {
		if len(words) < n {
			return ""
		}
		return words[len(words)-n]
	}
	operators := []string{"=", "!=", "<", "<=", ">", ">=", ":"}
	switch {
	case slices.Contains([]string{"", "AND", "OR", "NOT"}, last(1)):
		return app.Prefixed(done, fields.Sortable(md))
	case slices.Contains(operators, last(1)):
		return app.Prefixed(done, fields.Values(md, last(2)))
	case slices.Contains(operators, last(2)):
		return app.Prefixed(done, []string{"AND ", "OR "})
	}
	return app.Prefixed(done, []string{"= ", "!= "})
}
