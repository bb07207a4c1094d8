package cli_test

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/internal/cli"
	"github.com/holdfast-metal/holdfast/internal/cli/app"
	"github.com/holdfast-metal/holdfast/internal/cli/clitest"
)

// wrongFlag is a wrong use of a flag: the arguments, and texts of the refusal.
type wrongFlag struct{ args, want []string }

// wrongUses returns wrong uses of a flag by its type.
func wrongUses(f *pflag.Flag) []wrongFlag {
	name := "--" + f.Name
	bad := func(value string) wrongFlag {
		return wrongFlag{[]string{name + "=" + value}, []string{name + ":", value}}
	}
	var all []wrongFlag
	if _, ok := f.Annotations[app.MayBeEmpty]; !ok {
		all = append(all, wrongFlag{[]string{name + "="}, []string{name + `: "": is empty: give a value, or leave the flag out`}})
	}
	good := f.NoOptDefVal
	switch kind := f.Value.Type(); {
	case strings.Contains(kind, "uint"):
		all, good = append(all, bad("three"), bad("1.5"), bad("-3"), bad("99999999999999999999"),
			bad("1e3"), bad("0x10"), bad("010"), bad("+5"), bad("1_000"), bad("NaN")), "1"
	case strings.HasPrefix(kind, "int"):
		all, good = append(all, bad("three"), bad("1.5"), bad("0x"), bad("99999999999999999999"),
			bad("1e3"), bad("0x10"), bad("010"), bad("+5"), bad("1_000"), bad("NaN")), "1"
	case kind == "float64":
		all, good = append(all, bad("half")), "1"
	case kind == "duration" || kind == "time":
		all, good = append(all, bad("soon"), bad("5"), bad("1 h"), bad("5m5")), "1s"
	case kind == "bool":
		all, good = append(all, bad("perhaps"), bad("yes"), bad("2")), "true"
	case kind == "stringSlice":
		all = append(all, bad(","), bad("a,,b"), bad("a,"), bad(",a"), bad("a, ,b"))
	case kind == "string":
		good = cmp.Or(firstWord(f), "x")
	}
	if _, many := f.Value.(pflag.SliceValue); !many && good != "" {
		twice := []string{name + "=" + good, name + "=" + good}
		all = append(all, wrongFlag{twice, []string{name + ":", "is given twice: give it once"}})
	}
	return all
}

// firstWord returns the first word that a flag takes, or "" if it takes any text.
func firstWord(f *pflag.Flag) string {
	err := f.Value.Set("none-of-these")
	if err == nil {
		return ""
	}
	_, words, _ := strings.Cut(err.Error(), "is not one of ")
	word, _, _ := strings.Cut(words, ",")
	return word
}

// commandsOf calls f with each command that runs.
func commandsOf(root *cobra.Command, f func(*cobra.Command)) {
	for _, sub := range root.Commands() {
		if sub.RunE != nil && sub.Name() != "help" {
			f(sub)
		}
		commandsOf(sub, f)
	}
}

// noTerminal are streams without a terminal and an environment.
func noTerminal() app.Streams {
	return app.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Now: clitest.Now,
		Getenv: func(string) string { return "" }, Size: func(io.Writer) (int, int, bool) { return 0, 0, false }}
}

// TestEachFlagRefusesWrongValues checks each flag of each command: a value of another kind, an
// empty one and a second one are refused with the name of the flag, the value and the remedy,
// before a request is sent.
func TestEachFlagRefusesWrongValues(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	uses := 0
	commandsOf(cli.Root(noTerminal()), func(cmd *cobra.Command) {
		words := strings.Fields(cmd.CommandPath())[1:]
		flags := cmd.LocalFlags()
		if cmd.CommandPath() == "holdfast machine list" {
			flags = cmd.Flags() // and those of all commands
			cmd.InheritedFlags()
		}
		flags.VisitAll(func(flag *pflag.Flag) {
			if flag.Name == "help" || slices.Contains([]string{"token", "ca", "cert", "key"}, flag.Name) {
				return // the latter: TestEmptyCredentialsAreRefused
			}
			for _, use := range wrongUses(flag) {
				uses++
				var c clitest.Command
				args := append(slices.Clone(words), use.args...)
				at := strings.Join(args, " ")
				if code := c.Run(t, f, args...); code != app.ExitUsage {
					t.Errorf("%s: got exit code %d, want %d: %s", at, code, app.ExitUsage, c.Err.String())
				}
				clitest.WantIn(t, at, c.Err.String(), use.want...)
			}
		})
	})
	if uses < 500 {
		t.Errorf("got %d uses, want those of all commands", uses)
	}
	if len(f.Requests) > 0 {
		t.Errorf("got requests: %v", f.Requests)
	}
}

// readRequest matches requests that change nothing.
var readRequest = regexp.MustCompile(`^(Get|List|Watch|Read|Explain|WhoAmI|Probe|Verify|Stream|Wait|Collect)`)

// TestEachChoiceIsChecked checks each flag with a fixed list of values, in the examples of its
// command: another value is refused before a request changes something.
func TestEachChoiceIsChecked(t *testing.T) {
	const wrong = "none-of-these"
	f := clitest.Start(t, clitest.Fixture())
	flags := 0
	commandsOf(cli.Root(noTerminal()), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			complete, ok := cmd.GetFlagCompletionFunc(flag.Name)
			if !ok || flag.Name == "output" || flag.Value.Type() == "bool" {
				return
			}
			first, directive := complete(cmd, nil, "")
			if len(first) < 2 || directive != cobra.ShellCompDirectiveNoFileComp {
				return
			}
			for line := range strings.Lines(cmd.Example) {
				path := "  " + cmd.CommandPath() + " "
				if !strings.HasPrefix(line, path) || strings.ContainsAny(line, "<|>$;&") || strings.Contains(line, "='") {
					continue
				}
				var args []string
				for _, w := range exampleWord.FindAllString(strings.TrimPrefix(line, "  holdfast "), -1) {
					args = append(args, strings.Trim(w, "'\""))
				}
				if i := slices.Index(args, "--"+flag.Name); i >= 0 && i+1 < len(args) {
					args = slices.Delete(args, i, i+2)
				}
				args = append(args, "--"+flag.Name, wrong, "--timeout", "2s")
				if cmd.Flags().Lookup("yes") != nil && !slices.Contains(args, "--yes") {
					args = append(args, "--yes")
				}
				flags++
				var c clitest.Command
				at := strings.Join(args, " ")
				if code := c.Run(t, f, args...); code != app.ExitUsage {
					t.Errorf("%s: got exit code %d, want %d: %s", at, code, app.ExitUsage, c.Err.String())
				}
				clitest.WantIn(t, at, c.Err.String(), "--"+flag.Name, fmt.Sprintf("%q", wrong))
			}
		})
	})
	if flags < 5 {
		t.Errorf("got %d uses of flags, want more", flags)
	}
	for _, r := range f.Requests {
		if name := string(proto.MessageName(r).Name()); !readRequest.MatchString(name) {
			t.Errorf("got a request that changes something: %s", name)
		}
	}
}

// exampleWord is a word of an example, quoted or not.
var exampleWord = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)

// TestEmptyCredentialsAreRefused checks that an empty variable of a shell does not select other
// credentials, and that context set clears them.
func TestEmptyCredentialsAreRefused(t *testing.T) {
	f := clitest.Start(t, clitest.Fixture())
	for _, name := range []string{"token", "ca", "cert", "key"} {
		c := clitest.Command{Env: map[string]string{"HOLDFAST_TOKEN": "hf_admin"}}
		c.WantCode(t, c.Run(t, f, "machine", "list", "--"+name+"="), app.ExitUsage)
		clitest.WantIn(t, name, c.Err.String(), "--"+name+`: "": is empty: give a value, or leave the flag out`)
	}
	if len(f.Requests) > 0 {
		t.Errorf("got requests: %v", f.Requests)
	}
	env := map[string]string{"HOLDFAST_CONTEXTS": t.TempDir() + "/contexts.yaml"}
	for _, token := range []string{"hf_secret", ""} {
		c := clitest.Command{Env: env}
		c.WantCode(t, c.Run(t, nil, "context", "set", "lab", "--addr", "10.0.0.1:7400", "--token", token), app.ExitOK)
	}
	c := clitest.Command{Env: env}
	c.WantCode(t, c.Run(t, nil, "context", "list", "-o", "json"), app.ExitOK)
	clitest.WantIn(t, "context list", c.Out.String(), `"token_set": false`)
}

// TestFlagsOfAnotherProgram checks that another program can use the client flags.
func TestFlagsOfAnotherProgram(t *testing.T) {
	s := noTerminal()
	cmd := app.WithClientFlags(&cobra.Command{Use: "measure", RunE: func(cmd *cobra.Command, _ []string) error {
		cfg, err := app.ClientConfig(cmd, s)
		if err == nil && !slices.Equal(cfg.Addrs, []string{"10.0.0.1:7400"}) {
			err = fmt.Errorf("addresses: %v", cfg.Addrs)
		}
		return err
	}})
	root := &cobra.Command{Use: "other"}
	root.AddCommand(cmd)
	if code := cli.Execute(t.Context(), s, root, []string{"measure", "--addr", "10.0.0.1:7400"}); code != app.ExitOK {
		t.Errorf("got exit code %d, want %d", code, app.ExitOK)
	}
}
