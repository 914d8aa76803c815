package io.github.tollgaters.client;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The attributes of a call, checked and copied. Each value is a String, a Boolean or a List of Strings. */
record Attributes(Map<String, Object> values) {
    /** The attribute that has the name of a check. */
    static final String ACTION = "action";
    /** The most attributes of a call, the name of the check included. */
    private static final int MAX_ATTRIBUTES = 64;
    private static final int MAX_ELEMENTS = 64;
    private static final int MAX_NAME = 128;

    /** Returns the attributes of a check, which have room for its name. */
    static Attributes ofCheck(Map<String, ?> given) {
        if (given != null && given.containsKey(ACTION)) {
            throw new IllegalArgumentException("the attribute \"action\" is the name of the check, and cannot be given");
        }
        return copy(given, MAX_ATTRIBUTES - 1);
    }

    /** Returns the attributes of a count, which are its key. */
    static Attributes ofCount(Map<String, ?> given) {
        if (given == null || given.isEmpty()) {
            throw new IllegalArgumentException("a count needs at least one attribute: all of them are its key");
        }
        return copy(given, MAX_ATTRIBUTES);
    }

    private static Attributes copy(Map<String, ?> given, int most) {
        if (given == null) {
            throw new IllegalArgumentException("the attributes are null");
        }
        if (given.size() > most) {
            throw new IllegalArgumentException("there are " + given.size() + " attributes, more than " + most);
        }
        Map<String, Object> values = new LinkedHashMap<>();
        given.forEach((name, value) -> values.put(checkedName(name), checkedValue(name, value)));
        return new Attributes(Collections.unmodifiableMap(values));
    }

    private static String checkedName(String name) {
        if (name == null || name.isEmpty()) {
            throw new IllegalArgumentException("an attribute has an empty name");
        }
        if (Text.utf8Length(name) < 0) {
            throw new IllegalArgumentException("the name of an attribute is no Unicode: it has half of a surrogate pair");
        }
        if (name.codePointCount(0, name.length()) > MAX_NAME) {
            throw new IllegalArgumentException(
                    "the name of the attribute " + Text.quoted(name) + " has more than " + MAX_NAME + " characters");
        }
        return name;
    }

    private static Object checkedValue(String name, Object value) {
        if (value instanceof Boolean) {
            return value;
        }
        if (value instanceof String text) {
            return Text.sendable(text, "the attribute " + Text.quoted(name));
        }
        if (value instanceof Collection<?> elements) {
            return checkedElements(name, elements);
        }
        throw new IllegalArgumentException("the attribute " + Text.quoted(name) + " is "
                + (value == null ? "null" : "a " + value.getClass().getName())
                + ", not a String, a Boolean or a Collection of Strings");
    }

    private static List<String> checkedElements(String name, Collection<?> elements) {
        if (elements.size() > MAX_ELEMENTS) {
            throw new IllegalArgumentException("the attribute " + Text.quoted(name) + " has " + elements.size()
                    + " elements, more than " + MAX_ELEMENTS);
        }
        List<String> copy = new ArrayList<>();
        for (Object element : elements) {
            if (!(element instanceof String text)) {
                throw new IllegalArgumentException("an element of the attribute " + Text.quoted(name) + " is no String");
            }
            copy.add(Text.sendable(text, "an element of the attribute " + Text.quoted(name)));
        }
        return Collections.unmodifiableList(copy);
    }

    /** Returns the values that no log may show. */
    List<String> texts() {
        List<String> texts = new ArrayList<>();
        for (Object value : values.values()) {
            if (value instanceof String text) {
                texts.add(text);
            } else if (value instanceof List<?> elements) {
                elements.forEach(element -> texts.add((String) element));
            }
        }
        return texts;
    }

    /** Returns their names alone: the values are keys. */
    @Override
    public String toString() {
        return values.keySet().toString();
    }
}
