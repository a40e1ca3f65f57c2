package cluster

import (
	"errors"
	"fmt"
)

// Code is an error code of the ECS API.
type Code string

// The codes that Berth answers with.
const (
	CodeInvalidParameter     Code = "InvalidParameterException"
	CodeClient               Code = "ClientException"
	CodeServer               Code = "ServerException"
	CodeAccessDenied         Code = "AccessDeniedException"
	CodeClusterNotFound      Code = "ClusterNotFoundException"
	CodeServiceNotFound      Code = "ServiceNotFoundException"
	CodeServiceNotActive     Code = "ServiceNotActiveException"
	CodeDeploymentNotFound   Code = "ServiceDeploymentNotFoundException"
	CodeUnsupported          Code = "UnsupportedFeatureException"
	CodeConflict             Code = "ConflictException"
	CodeLimitExceeded        Code = "LimitExceededException"
	CodeAttributeLimit       Code = "AttributeLimitExceededException"
	CodeTargetNotFound       Code = "TargetNotFoundException"
	CodeContainsInstances    Code = "ClusterContainsContainerInstancesException"
	CodeContainsServices     Code = "ClusterContainsServicesException"
	CodeContainsTasks        Code = "ClusterContainsTasksException"
	CodeResourceNotFound     Code = "ResourceNotFoundException"
	CodeUnknownOperation     Code = "UnknownOperationException"
	CodeSerialization        Code = "SerializationException"
	CodeThrottling           Code = "ThrottlingException"
	CodeRequestEntityTooBig  Code = "RequestEntityTooLargeException"
	CodeResourceInUse        Code = "ResourceInUseException"
	CodeInvalidRequest       Code = "InvalidRequestException"
	CodeUpdateInProgress     Code = "UpdateInProgressException"
	CodeMissingAuthorization Code = "MissingAuthenticationTokenException"
)

// The codes of Elastic Load Balancing and Cloud Map that mean something to Berth.
const (
	CodeTargetGroupNotFound Code = "TargetGroupNotFound"
	CodeInvalidTarget       Code = "InvalidTarget"
	CodeRegistryNotFound    Code = "ServiceNotFound"
	CodeEntryNotFound       Code = "InstanceNotFound"
	CodeDuplicateRequest    Code = "DuplicateRequest"
	CodeEntryInUse          Code = "ResourceInUse"
)

// Error is an answer of the ECS API that is not success: the caller's doing, or (ServerException)
// ours.
type Error struct {
	Code    Code
	Message string
}

// Error is the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

// Errorf makes an [Error].
func Errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrorCode is the code of err: ServerException unless err is, or wraps, an [Error].
func ErrorCode(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeServer
}

// ErrAmbiguous marks a call whose outcome is unknown: it may or may not have taken effect. Whoever
// gets it reads again before acting again.
var ErrAmbiguous = errors.New("the outcome is unknown")

// Drop marks an input that no retry can help: it is acknowledged, counted and logged.
type Drop struct{ Reason string }

// Error is the reason.
func (d *Drop) Error() string { return "dropped: " + d.Reason }

// IgnoreDrop returns nil for a [Drop] and any other error as it is.
func IgnoreDrop(err error) error {
	var drop *Drop
	if errors.As(err, &drop) {
		return nil
	}
	return err
}

// Wrap is fmt.Errorf for an error that may be nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
