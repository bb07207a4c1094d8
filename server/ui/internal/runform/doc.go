// Package runform reads the forms that start runs: the plan and the parameters. It makes no calls.
package runform
