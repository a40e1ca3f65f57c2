// Package berth holds the template that deploys Berth to AWS, for the embedded tier to be wired by the same text.
package berth

import _ "embed"

// Template is template.yaml.
//
//go:embed template.yaml
var Template string
