"""What is done where a Kubernetes API is the store: its objects are copied, and binds are promised and sent.

::

    states      pure: what one state of an object does to its copy, and to the promise of a pod
    adopting    takes one state in, whoever read it
    copying     takes in what lists and watches show, many states a transaction: the importer alone
    promising   sends promises, and finds out what became of them
    withdrawing gives a promise up, so that it can never be carried out late

`apiserver` speaks with the API; `scheduling.effects` binds as ever, and puts the promise in its transaction.
"""
