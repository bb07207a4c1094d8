// Package filter is the filter language of list and watch requests: AIP-160 over protobuf messages
// (docs/clients.md, 002).
//
// It owns the grammar, the lookup of fields and the comparison of values. It must not know which
// messages there are: a Schema tells it. The one parser at hand for this language splits an
// unquoted m-1 into "m" and "NOT 1", and machine_id=m-1 is the example of the document, so this is
// our own.
//
// A filter is a list of comparisons joined by AND, OR (which binds tighter, as AIP-160 has it), NOT
// or a leading "-", and parentheses. A comparison is a path, one of = != < <= > >= or : (has), and
// a value: a word, or a string in quotes. In the value of = and != on strings, and of :, a * stands
// for any text.
package filter
