//go:build tools

// Package tools names the S3 server that the test environment builds.
package tools

import _ "github.com/versity/versitygw/cmd/versitygw"
