// Package throttling counts starts that fail, and slows down the services whose tasks keep failing.
package throttling
