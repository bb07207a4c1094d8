package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-metal/holdfast/internal/nearest"
)

// UnknownCommand returns the error for a word that is no command of group, with the commands that
// may have been meant.
func UnknownCommand(group *cobra.Command, args []string) error {
	msg := fmt.Sprintf("unknown command %q for %q", args[0], group.CommandPath())
	if like := meant(group, args); len(like) > 0 {
		msg += fmt.Sprintf(": did you mean %s?", strings.Join(like, " or "))
	} else if verbs := names(group); group.HasParent() && len(verbs) <= maxVerbs {
		msg += ": it has " + strings.Join(verbs, ", ")
	}
	return Usagef("%s: see: %s --help", msg, group.CommandPath())
}

// maxVerbs is the maximum number of verbs of a group that a message lists.
const maxVerbs = 12

// names returns the names of a group's verbs.
func names(group *cobra.Command) []string {
	var all []string
	for _, cmd := range group.Commands() {
		if cmd.IsAvailableCommand() {
			all = append(all, cmd.Name())
		}
	}
	return all
}

// meant returns the commands that the unknown words may have meant, from the most to the least
// certain guess.
func meant(group *cobra.Command, args []string) []string {
	if like := verbFirst(group, args); len(like) > 0 {
		return like
	}
	if like := sameMeaning(group, args[0]); len(like) > 0 {
		return like
	}
	if like := inOtherGroups(group, args[0]); len(like) > 0 {
		return like
	}
	if like := likely(group, args[0]); len(like) > 0 {
		return like
	}
	if like := otherTools()[args[0]]; like != "" {
		return []string{like}
	}
	return misspelledVerb(group, args[0])
}

// verbFirst returns the command for words in the order of kubectl: "get machine", "describe run".
func verbFirst(root *cobra.Command, args []string) []string {
	if root.HasParent() || len(args) < 2 {
		return nil
	}
	for _, group := range root.Commands() {
		if group.Name() != args[1] && !group.HasAlias(args[1]) {
			continue
		}
		verbs := sameMeaning(group, args[0])
		if verb := exactVerb(group, args[0]); verb != "" {
			verbs = []string{verb}
		}
		if len(verbs) == 0 {
			verbs = likely(group, args[0])
		}
		return Prefixed(group.CommandPath()+" ", verbs)
	}
	return nil
}

// likely returns the verb of a group that a mistyped one was meant to be, or those that begin so.
func likely(group *cobra.Command, name string) []string {
	verbs := names(group)
	if verb := nearest.Of(name, verbs); verb != "" {
		return []string{verb}
	}
	return slices.DeleteFunc(verbs, func(verb string) bool { return !strings.HasPrefix(verb, name) })
}

// exactVerb returns the verb of a group with this name or alias, and "" if it has none.
func exactVerb(group *cobra.Command, name string) string {
	for _, cmd := range group.Commands() {
		if cmd.IsAvailableCommand() && (cmd.Name() == name || cmd.HasAlias(name)) {
			return cmd.Name()
		}
	}
	return ""
}

// synonyms returns the verbs that tools use for the same.
func synonyms() [][]string {
	return [][]string{{"add", "create", "new", "put", "register", "set"},
		{"delete", "remove", "rm", "revoke", "deregister"}, {"get", "show", "describe", "info"},
		{"update", "edit", "change", "modify"}, {"list", "ls"}, {"cancel", "stop", "abort", "kill"},
		{"watch", "follow", "tail"}, {"retry", "rerun", "redo"}}
}

// sameMeaning returns the verbs of a group that other tools call by this name.
func sameMeaning(group *cobra.Command, name string) []string {
	for _, words := range synonyms() {
		if !slices.Contains(words, name) {
			continue
		}
		var found []string
		for _, cmd := range group.Commands() {
			if slices.Contains(words, cmd.Name()) {
				found = append(found, cmd.Name())
			}
		}
		return found
	}
	return nil
}

// inOtherGroups returns the commands of other groups that have this verb, or one that means the
// same. If there are many, that of machines is the example for a verb without a group.
func inOtherGroups(group *cobra.Command, name string) []string {
	const most = 3
	root, found := group.Root(), []string(nil)
	for _, group := range root.Commands() {
		if verb := exactVerb(group, name); verb != "" {
			found = append(found, group.CommandPath()+" "+verb)
		}
	}
	if len(found) == 0 {
		for _, group := range root.Commands() {
			found = append(found, Prefixed(group.CommandPath()+" ", sameMeaning(group, name))...)
		}
	}
	if len(found) <= most {
		return found
	}
	if group.HasParent() {
		return nil
	}
	machines := slices.DeleteFunc(found, func(path string) bool { return !strings.Contains(path, " machine ") })
	return machines[:min(len(machines), 1)]
}

// misspelledVerb returns the command of other groups whose verb differs by a letter or two.
func misspelledVerb(group *cobra.Command, name string) []string {
	var verbs []string
	for _, g := range group.Root().Commands() {
		verbs = append(verbs, names(g)...)
	}
	for _, words := range synonyms() {
		verbs = append(verbs, words...)
	}
	if verb := nearest.Of(name, verbs); verb != "" && verb != name {
		return inOtherGroups(group, verb)
	}
	return nil
}

// otherTools returns the command for words of other tools that no command has.
func otherTools() map[string]string {
	const power = "holdfast machine power"
	const reboot, repave = "holdfast run start --type REBOOT", "holdfast run start --type REPAVE"
	return map[string]string{
		"diff": "holdfast apply --dry-run", "login": "holdfast login", "config": "holdfast context",
		"rollout": "holdfast wave", "batch": "holdfast wave", "job": "holdfast run", "jobs": "holdfast run",
		"reboot": reboot, "restart": reboot, "reinstall": repave, "provision": repave, "repave": repave,
		"poweron": power + " on", "poweroff": power + " off", "on": power + " on", "off": power + " off",
		"reset": power + " cycle", "label": "holdfast machine update --label",
	}
}
