// Package filter implements the filter language of list and watch requests: AIP-160 over
// protobuf messages (docs/clients.md, 002).
//
// It owns the grammar, the lookup of fields and the comparison of values. It does not know
// the message types; a Schema describes them. It has its own parser because the available
// one splits an unquoted m-1 into "m" and "NOT 1", and the documentation uses the example
// machine_id=m-1.
//
// A filter is a list of comparisons. They are combined with AND, OR (which binds tighter,
// as in AIP-160), NOT or a leading "-", and parentheses. A comparison is a path, an
// operator and a value. The operators are = != < <= > >= and : (has). The value is a word
// or a quoted string. With = and != on strings, and with :, a * in the value matches any
// text; \* in a quoted string is a star. Quote writes a text so that it means itself.
package filter
