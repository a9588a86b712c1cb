#: Units in a dual of one that is kept in 16 bits.
COUNTS = 32767
