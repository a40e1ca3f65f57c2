package cluster

import (
	"errors"
)

// ForGood is the error of another API that refuses something for good; nil where it may be tried again.
func ForGood(err error) *Error {
	var e *Error
	if !errors.As(err, &e) || errors.Is(err, ErrAmbiguous) || passing(e.Code) {
		return nil
	}
	return e
}

// Denies reports whether a code says that the caller lacks rights (common errors of AWS's APIs).
func Denies(c Code) bool {
	switch c {
	case CodeAccessDenied, "AccessDenied", "UnauthorizedOperation":
		return true
	}
	return false
}

// passing reports whether a code is of an error that passes.
func passing(c Code) bool {
	switch c {
	case CodeServer, CodeThrottling, "Throttling", "RequestLimitExceeded", "InternalError", "InternalFailure", "ServiceUnavailable",
		"Unavailable", "ScalingActivityInProgress", "ResourceContention":
		return true
	}
	return false
}
