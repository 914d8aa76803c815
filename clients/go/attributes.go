package tollgate

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// Attributes describe a request. Each value is a string, a bool or a []string of at most 64 strings, and no string is
// longer than 1,024 bytes. There are at most 64 attributes, with the name of the check, and their names have 1 to 128
// characters. The service refuses what is above these bounds. Its policies say which attributes matter. The attribute
// "action" is taken: it is the name of the check.
type Attributes map[string]any

const (
	action      = "action"
	maxCost     = 1<<32 - 1
	maxUnits    = 1000
	maxTextSize = 1024
	// With the name of the check.
	maxAttributes    = 64
	maxElements      = 64
	maxAttributeName = 128 // in characters
)

// validFor returns what is wrong with a check of this name.
func (a Attributes) validFor(name string) error {
	if name == "" {
		return errors.New("tollgate: the name of a check is empty")
	}
	if !sendable(name) {
		return fmt.Errorf("tollgate: the name of a check is not UTF-8 of at most %d bytes", maxTextSize)
	}
	if _, taken := a[action]; taken {
		return errors.New(`tollgate: the attribute "action" is the name of the check, and cannot be given`)
	}
	return a.valid(maxAttributes - 1)
}

func (a Attributes) valid(most int) error {
	if len(a) > most {
		return fmt.Errorf("tollgate: there are %d attributes, more than %d", len(a), most)
	}
	for attribute, value := range a {
		if err := validAttributeName(attribute); err != nil {
			return err
		}
		switch value := value.(type) {
		case bool:
		case string:
			if !sendable(value) {
				return fmt.Errorf("tollgate: the attribute %q is not UTF-8 of at most %d bytes", attribute, maxTextSize)
			}
		case []string:
			if len(value) > maxElements {
				return fmt.Errorf("tollgate: the attribute %q has %d elements, more than %d", attribute, len(value), maxElements)
			}
			for _, element := range value {
				if !sendable(element) {
					return fmt.Errorf("tollgate: an element of the attribute %q is not UTF-8 of at most %d bytes", attribute, maxTextSize)
				}
			}
		default:
			return fmt.Errorf("tollgate: the attribute %q is a %T, not a string, a bool or a []string", attribute, value)
		}
	}
	return nil
}

func validAttributeName(attribute string) error {
	switch {
	case attribute == "":
		return errors.New("tollgate: an attribute has an empty name")
	case !utf8.ValidString(attribute):
		return fmt.Errorf("tollgate: the name of the attribute %.200q is not UTF-8", attribute)
	case utf8.RuneCountInString(attribute) > maxAttributeName:
		return fmt.Errorf("tollgate: the name of the attribute %.200q has more than %d characters", attribute, maxAttributeName)
	}
	return nil
}

func sendable(text string) bool {
	return len(text) <= maxTextSize && utf8.ValidString(text)
}

// texts are the values that no log may show.
func (a Attributes) texts() []string {
	var texts []string
	for _, value := range a {
		switch value := value.(type) {
		case string:
			texts = append(texts, value)
		case []string:
			texts = append(texts, value...)
		}
	}
	return texts
}
