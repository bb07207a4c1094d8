// Package display formats machines, runs, plans and measurements for the pages of the dashboard: it
// has the functions of the templates, and draws plots. It must not make calls, and it knows no page
// and no caller.
package display
